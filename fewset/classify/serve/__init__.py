"""The web page and the HTTP interface of `fewset serve`. The page itself is in page/."""
