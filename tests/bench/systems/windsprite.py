"""The server of this tree."""

from collections.abc import Mapping
from pathlib import Path

from support.server_process import ServerProcess


class Windsprite:
    """`windsprite-server` with default settings, apart from where it keeps its data."""

    def __init__(
        self, folder: Path, *, fsync: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.durability = "fsync, shared" if fsync else "page cache"
        self.address = ""
        self.pid = 0
        self.topic_durability = "persisted" if fsync else "replicated"
        self._settings = dict(settings or {})
        self._process: ServerProcess | None = None

    @property
    def data_directory(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        environment = {
            "WINDSPRITE_TCP__ADDRESS": "127.0.0.1:0",
            "WINDSPRITE_DATA_DIR": str(self.data_directory),
        }
        self._process = ServerProcess(self.folder, environment=environment | self._settings)
        ready = self._process.wait_ready(120)
        self.address = ready["tcp"]
        self.pid = ready["pid"]

    def kill(self) -> None:
        if self._process is not None:
            self._process.end()
