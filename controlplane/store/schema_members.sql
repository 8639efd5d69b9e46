-- Carries over a database in which a namespace had one host and one store. It runs once, after schema_added.sql.
BEGIN IMMEDIATE;
ALTER TABLE hosts ADD COLUMN raft TEXT NOT NULL DEFAULT '';
ALTER TABLE namespaces ADD COLUMN listed INTEGER NOT NULL DEFAULT 0;
INSERT INTO members (namespace, store, position, leaving, deleted) SELECT namespace, store, 0, 0, 0 FROM placements;
UPDATE namespaces SET listed = 1 WHERE id IN (SELECT namespace FROM members);
DROP TABLE placements;
DROP INDEX namespaces_host;
DROP INDEX namespaces_operation;
ALTER TABLE namespaces DROP COLUMN host;
CREATE INDEX namespaces_unsettled ON namespaces (id)
    WHERE phase <> 'deleted' AND (operation <> '' OR observed < generation OR listed <> replicas);
COMMIT;
