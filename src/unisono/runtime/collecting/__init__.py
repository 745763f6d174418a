"""The collector: takes reports of many processes, keeps them, and builds the lake from them."""
