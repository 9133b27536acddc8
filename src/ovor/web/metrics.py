"""What Prometheus reads."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

METHODS = ("GET", "POST", "DELETE")  # that are counted by name


class Metrics:
    """What Prometheus reads: a registry of our own, labelled by the routes that there are."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter(
            "ovor_requests",
            "Requests by route, method and status",
            ("route", "method", "status"),
            registry=own,
        )
        self.seconds = Histogram(
            "ovor_prediction_seconds",
            "Seconds from a prediction's first byte to its answer",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=own,
        )
        self.images = Counter("ovor_images_predicted", "Images or texts predicted", registry=own)
        self.lessons = Counter(
            "ovor_lessons", "Lessons that have ended, by state", ("state",), registry=own
        )
        for state in ("done", "failed", "cancelled"):
            self.lessons.labels(state)

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        Gauge(name, about, registry=self.registry).set_function(read)

    def count(self, route: str | None, method: str, status: int) -> None:
        """Count a request; clients cannot add labels of their own, which would fill the memory."""
        method = method if method in METHODS else "other"
        self.requests.labels(route or "other", method, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)
