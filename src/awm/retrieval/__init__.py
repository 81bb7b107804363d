"""Retrieval: find the pages of a document that a query asks for."""

from awm.retrieval.gold import GoldPages
from awm.retrieval.lexical import BM25Retriever
from awm.retrieval.retriever import Hit, Retriever

__all__ = ["BM25Retriever", "GoldPages", "Hit", "Retriever"]
