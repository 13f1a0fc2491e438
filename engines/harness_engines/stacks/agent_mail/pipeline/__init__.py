"""One query on its way: the plan, the fallback tiers, the ranking, the page, the explanation."""
