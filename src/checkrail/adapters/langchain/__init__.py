"""The seam that makes hooks hold in LangChain models and tools, and so in LangGraph graphs."""

from checkrail.adapters.langchain.guard import Guard
from checkrail.adapters.langchain.install import install
from checkrail.adapters.langchain.journal import Journal
from checkrail.adapters.langchain.reach import out_of_reach
from checkrail.adapters.langchain.run_endings import RunEnded, RunEnding, ToolBlocked

__all__ = ["Guard", "Journal", "RunEnded", "RunEnding", "ToolBlocked", "install", "out_of_reach"]
