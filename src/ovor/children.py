"""The processes that a piece of work has started, told from others of the same program."""

from multiprocessing import active_children


class Children:
    """What multiprocessing has started since this was made: others are none of ours to end."""

    def __init__(self) -> None:
        self.others = set(active_children())

    def terminate(self) -> None:
        for child in set(active_children()) - self.others:
            child.terminate()
