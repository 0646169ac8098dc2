"""The commands, one noun or a family of nouns a module, loaded on use."""
