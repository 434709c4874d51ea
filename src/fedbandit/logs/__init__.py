"""What an agent decided and what came of it, as files on its own device. Never uploaded.

``LogWriter`` writes records, ``read`` joins decisions and rewards into events, ``convert`` makes
other formats of them and back. Needs numpy and msgspec; Parquet needs pyarrow.
"""

from fedbandit.logs.converting import FORMATS, convert
from fedbandit.logs.event import Event, Tally
from fedbandit.logs.reading import read
from fedbandit.logs.records import Opened
from fedbandit.logs.writer import LogTo, LogWriter

__all__ = ["FORMATS", "Event", "LogTo", "LogWriter", "Opened", "Tally", "convert", "read"]
