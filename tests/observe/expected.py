"""What the story cannot show, and why. An entry that is not needed any more fails the tests."""

# (dashboard, panel): why it has no data after the story.
NO_DATA = {}

# Alert: (selector, why it has no series after the story).
NO_SERIES = {}

# Metric of the service that is on no dashboard: why not.
NOT_SHOWN = {}

# Alert whose expression is true at the end of the story: why that is right.
TRUE_ALERTS = {}
