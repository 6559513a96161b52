"""Parts that commands share: options, bad input, result files, progress, pages of text."""
