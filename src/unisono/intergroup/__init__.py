"""The InterGroup protocols (documents 000 and 003): so far the data path.

`group` is the engine. `speaking` is this process as a source (`sending` numbers and packs what it says, `audience`
knows who still needs it); `following` is this process as a receiver (`activation`, then a `stream` for each source);
`unordered` hands on what comes; `delivery` is what the application gets, and the views.
"""

from unisono.intergroup.context import Context as Context
from unisono.intergroup.group import IntergroupEngine as IntergroupEngine
from unisono.intergroup.group import Resumption as Resumption
