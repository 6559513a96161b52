"""Commands about models: trained, compared, averaged; implementations tested."""
