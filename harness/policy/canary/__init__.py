"""The canary: a pair with known answers, judged by the same code in every decision."""
