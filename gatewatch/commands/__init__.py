"""The commands, one module a topic. gatewatch/cli.py puts them together."""
