"""The seam that makes hooks hold in LangChain models and tools, and so in LangGraph graphs."""

from checkrail.adapters.langchain.endings import Ended, RunEnded, ToolBlocked
from checkrail.adapters.langchain.guard import Guard
from checkrail.adapters.langchain.install import install
from checkrail.adapters.langchain.journal import Journal
from checkrail.adapters.langchain.reach import out_of_reach

__all__ = ["Ended", "Guard", "Journal", "RunEnded", "ToolBlocked", "install", "out_of_reach"]
