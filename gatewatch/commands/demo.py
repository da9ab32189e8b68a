def demo() -> None:
    """Placeholder while the fleet is being written."""
