-- What doctor asks of the file: schema, how it is logged, the size of a page, pages in all and free ones.
SELECT (SELECT user_version FROM pragma_user_version), (SELECT journal_mode FROM pragma_journal_mode),
       (SELECT page_size FROM pragma_page_size), (SELECT page_count FROM pragma_page_count),
       (SELECT freelist_count FROM pragma_freelist_count)
