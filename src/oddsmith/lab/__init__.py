"""The lab: a page in the browser on which models are fitted to points that can be moved, and one for a fitted model.

A small local server (`oddsmith.lab.server`, which needs the extra ``lab``) answers the page's questions with the
library's own fits. Nothing that a page sends is evaluated as code or names a file.
"""
