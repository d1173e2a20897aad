"""A device for the benchmark on a GPU, where there is none."""

FACTS = {"gpu": "G", "capability": "9.0", "multiprocessors": 4, "memory_gib": 1.0, "l2_mib": 2.0, "cuda": "13"}
FACTS |= {"python": "3", "versions": {"torch": "2"}}


class StandIn:
    """A device on which every call takes 2 ms, on the CPU; a call can be made to fail."""

    name = "cpu"

    def __init__(self, captures=True):
        self.captures = captures
        self.sick = ""

    def milliseconds(self, call, *, cold=True):
        call()
        return 2.0

    def extra_bytes(self, call):
        call()
        return 1000

    def launches(self, call):
        call()
        return 3

    def waits(self, call):
        call()
        return ""

    def captured(self, call):
        if not self.captures:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return call

    def give_back(self):
        pass

    def trouble(self):
        return self.sick
