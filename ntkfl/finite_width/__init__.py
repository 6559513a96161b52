"""What a finite width adds to the limit: neurons near kinks, the order m^(-1/2) of the outputs, neurons that gather."""
