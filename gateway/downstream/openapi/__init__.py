"""Servers that speak HTTP and no MCP: the operations of an OpenAPI document as tools.

``document``, ``addresses``, ``schemas``, ``output``, ``parameters``, ``bodies``, ``operations`` and ``toolset`` turn a
document into tools; ``serialise`` and ``payload`` arguments into a request; ``answer`` what comes back into a result.
All of them are pure. ``source`` fetches documents; ``channel`` and ``dialect`` stand where a transport and an era do.
"""
