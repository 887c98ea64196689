from hypothesis import settings

# A busy machine is slow, not wrong: no example fails for taking its time.
settings.register_profile("checkrail", deadline=None)
settings.load_profile("checkrail")
