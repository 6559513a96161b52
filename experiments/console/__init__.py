"""What several commands use: options, messages for bad input, result files, progress, and text on the screen."""
