"""Commands about models: trained, compared, averaged, held against an implementation."""
