"""What `ntkfl certify` takes where nothing is said, for every kind of certificate."""

NOT_CERTIFIED = 1
DEFAULTS = {"width": 64000, "eta_local": 0.02, "eta_global": 1.0, "local_steps": 2}
SPHERE_SIZE = 4  # samples on the sphere: with 64000 neurons most draws certify
WATCHED_ROUNDS = 2000  # unless --rounds says otherwise
FIELDS = ("width", "sigma", "local_steps", "eta_local", "eta_global", "seed")
