"""The script, in a folder of its own: Streamlit would run the files of a `pages` beside it."""
