"""Commands about users: ACLs, credentials, tokens and quotas."""
