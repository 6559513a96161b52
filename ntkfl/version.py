"""The version of this project; all other places read it from here."""

VERSION = "0.1.0"
