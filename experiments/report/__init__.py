"""The report: verdicts and studies as one folder of static pages that need neither a network nor a script."""
