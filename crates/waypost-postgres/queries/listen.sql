-- nudges: hears what others send. {channel} is replaced by a checked name.
LISTEN "{channel}"
