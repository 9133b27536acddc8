"""Two roles: who may ask, and who may teach. A token tells which; without any, all may teach."""

import hmac

from starlette.types import Scope

from ovor.web.errors import Refused
from ovor.web.settings import Settings

ASKING = {("GET", "/model"), ("POST", "/predict"), ("POST", "/table"), ("GET", "/healthz")}
OPEN = ("/", "/healthz")  # and /static: no token needed


class Roles:
    """Tells by a request's token what it may do."""

    def __init__(self, settings: Settings) -> None:
        self.teach = (settings.token or "").encode()
        self.ask = (settings.ask_token or "").encode()

    def check(self, scope: Scope) -> None:
        """Refuse a request that may not be made, and note on others whether they may teach."""
        scope["may_teach"] = True
        if not self.teach and not self.ask:
            return
        teaches, asks = self.of(dict(scope["headers"]).get(b"authorization", b""))
        scope["may_teach"] = teaches
        method, path = scope["method"].replace("HEAD", "GET"), scope["path"]
        if teaches or path in OPEN or path.startswith("/static/"):
            return
        if not asks:
            raise Refused(401, "A token is needed: send Authorization: Bearer TOKEN.")
        if (method, path) not in ASKING:
            raise Refused(
                403, "With this token you may ask, and not teach: ask who runs this for the other."
            )

    def of(self, given: bytes) -> tuple[bool, bool]:
        """Return whether a header has the token to teach, and the one to ask.

        Both are always compared, and in a time that does not tell how much of them is right.
        """
        kind, _, token = given.partition(b" ")
        token = token.strip()
        found = [hmac.compare_digest(token, own) for own in (self.teach, self.ask)]
        bearer = kind.lower() == b"bearer" and bool(token)
        return bearer and found[0], bearer and found[1]


def may_teach(scope: Scope) -> bool:
    """Tell whether a request that was let through may teach."""
    return bool(scope.get("may_teach", False))
