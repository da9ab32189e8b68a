"""The controls of agents' gates as pure functions over one trace: what a gate would have said."""
