"""The report: verdicts and studies as a folder of static pages, which need neither a network nor scripts."""
