"""One module per experiment; ``chaos/catalogue.py`` lists them."""
