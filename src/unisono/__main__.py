"""`python -m unisono` is the command `unisono`."""

from unisono.cli.main import run

if __name__ == "__main__":
    run()
