"""What the story cannot show, and why. An entry that is not needed any more fails the tests."""

# (dashboard, panel): why it has no data in the story.
NO_DATA = {
    ("stockade-service", "Errors by route"): "no request fails in a healthy story",
} | {
    ("stockade-service", panel): "k6 plays no part in the story"
    for panel in ("Requests of k6", "Duration at k6, p99", "Virtual users", "Dropped iterations", "Answers at k6",
                  "Failed requests of k6")
}

# (dashboard, variable): why Prometheus knows no values of it.
NO_VALUES = {("stockade-service", "testid"): "k6 plays no part in the story"}

# Alert: selectors of its expression that have no series in the story, and why.
NO_SERIES: dict[str, dict[str, str]] = {}

# Metric of the service that is on no dashboard: why not.
NOT_SHOWN: dict[str, str] = {}

# Alert that is true in the story: why that is right.
TRUE_ALERTS = {"StockadeWebhookDeadLetters": "the story has an endpoint that answers 410 for good"}

# Panels of those that have data where Redis did not answer in time once.
SLOW_MACHINE = {("stockade-service", "Errors by route")}

# Alerts that say how fast this machine and its disk are at the moment: they must not fire, but may be true for a moment.
MACHINE = {"StockadeSlow", "StockadePoolStarved", "StockadeFsyncSlow"}
