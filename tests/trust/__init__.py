"""Tests of second opinions: reproduce, sign, requery."""
