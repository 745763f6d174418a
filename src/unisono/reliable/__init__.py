"""What every engine needs: windows, gaps, fragments, deadlines, silence. Engines import it, never one another."""
