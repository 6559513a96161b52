"""From cases to an outcome: admitted, judged, counted, confirmed, settled."""
