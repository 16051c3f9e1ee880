"""The paper's analysis: its bounds as functions, and what runs show beside them."""
