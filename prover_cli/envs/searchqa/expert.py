"""A policy that knows which passages a question needs, and the answer."""

from __future__ import annotations

from prover_cli.envs.searchqa.session import SearchQASession, as_action
from prover_cli.envs.searchqa.types import Question


def next_action(question: Question, session: SearchQASession) -> str:
    """The next query of the question's chain that was not asked yet, then the answer.

    Without a chain it asks for the titles of the supporting passages, and without those the
    question itself. Once no search is left it answers.
    """
    asked = {turn.content for turn in session.state.searches}
    queries = question.chain or question.gold or (question.text,)
    open_queries = [query for query in queries if query not in asked]
    if open_queries and session.searches_left:
        return as_action("search", open_queries[0])
    return as_action("answer", question.answers[0])
