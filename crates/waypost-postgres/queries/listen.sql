-- nudges: subscribes to a channel. {channel} is replaced by a checked name.
LISTEN "{channel}"
