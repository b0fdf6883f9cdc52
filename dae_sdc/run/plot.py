"""The verb ``plot`` beside the others, ``python run/plot.py``; the room of pictures carries it out."""

from dae_sdc.errors import InputError as InputError  # the first import of the package begins the verb
