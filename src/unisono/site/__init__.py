"""The processes of one site, and which of them speaks for it."""

from unisono.site.phases import Change, Standing
from unisono.site.site import Site

__all__ = ["Change", "Site", "Standing"]
