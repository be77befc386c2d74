"""Filters of jobs: one grammar for Python, command line, REST and dashboard.

    state:failed,cancelled kind:report* -principal:anna age:>1h args.county:Harju

``Filter.parse`` reads a text, ``str(filter)`` writes it; ``conditions.py`` makes the bound parameters of the search of it.
"""

from windlass.control.filters.filter import Filter as Filter
from windlass.control.filters.terms import Scalar as Scalar
from windlass.control.filters.terms import Term as Term
from windlass.control.filters.terms import Word as Word
