"""A course on classification: the topics of the syllabus with their examples, and the figures of the gallery.

>>> from oddsmith.lectures import find_topic, topics
>>> len(topics()), find_topic("newton").title
(38, 'Newton-Raphson')
"""

from oddsmith.lectures.syllabus import Topic, find_topic, run_example, topics

__all__ = ["Topic", "find_topic", "run_example", "topics"]
