-- Start a transaction as the only writer.
BEGIN IMMEDIATE
