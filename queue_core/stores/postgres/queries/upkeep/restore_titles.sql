-- Bring titles back that were forgotten while a job died with their signature: it had found them there.
INSERT INTO error_signatures (signature, title, exception, first_seen)
SELECT i.signature, i.title, i.exception, i.first_seen::timestamptz
  FROM unnest(%(signatures)s::text[], %(titles)s::text[], %(exceptions)s::text[], %(first_seen)s::text[])
       AS i (signature, title, exception, first_seen)
 WHERE EXISTS (SELECT FROM jobs_dead d WHERE d.signature = i.signature)
    ON CONFLICT (signature) DO NOTHING
