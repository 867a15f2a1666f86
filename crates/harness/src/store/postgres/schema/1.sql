-- A ledger of tasks for several machines. SQL orders and stores; it never judges.
CREATE SCHEMA harness;

CREATE TABLE harness.schema_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version integer NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Names the line of history to which this server adds: a replica that takes over begins a new timeline, and
-- a restored copy is another database. A server that does not tell has no line.
CREATE FUNCTION harness.server_line() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' ||
        (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database());
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

-- The point of order: a change locks the row of its ledger first.
CREATE TABLE harness.ledger (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    origin text NOT NULL,
    version bigint NOT NULL,
    hash text NOT NULL,
    state text NOT NULL,
    head text NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    log_bytes bigint NOT NULL DEFAULT 0,
    snapshot_bytes bigint NOT NULL,
    changed_at timestamptz NOT NULL,
    server_line text,
    -- A ledger that was copied into files, and must not be changed any more.
    retired_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Every change, complete and in order. The first row is a snapshot. `entry` is a line of the journal.
CREATE TABLE harness.change (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    version bigint NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    at timestamptz NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (ledger, version)
);

CREATE FUNCTION harness.refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'harness.change is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON harness.change
    FOR EACH ROW EXECUTE FUNCTION harness.refuse_rewriting();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON harness.change
    FOR EACH STATEMENT EXECUTE FUNCTION harness.refuse_rewriting();

-- The current rows, for fast loading and for people with psql. `entry` is the truth.
CREATE TABLE harness.task (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    id text NOT NULL,
    added_version bigint NOT NULL,
    added_index integer NOT NULL,
    title text NOT NULL,
    status text NOT NULL,
    attempts integer NOT NULL,
    epoch bigint,
    claimed_by text,
    entry text NOT NULL,
    PRIMARY KEY (ledger, id)
) WITH (fillfactor = 80);

-- Renewals are no history. A row is newer than the row of its task.
CREATE TABLE harness.lease (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    task text NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    beat bigint NOT NULL,
    PRIMARY KEY (ledger, task)
) WITH (fillfactor = 50);

-- What took effect, by the id that its sender made, with the answers it was given.
CREATE TABLE harness.operation (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    id uuid NOT NULL,
    version bigint,
    replies text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger, id)
);
CREATE INDEX operation_by_age ON harness.operation (at);

CREATE TABLE harness.log (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    version bigint NOT NULL,
    number integer NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (ledger, version, number)
);

CREATE TABLE harness.receipt (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    name text NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (ledger, name)
);

CREATE TABLE harness.run (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    id text NOT NULL,
    created_at text NOT NULL,
    status text NOT NULL,
    task text,
    epoch bigint,
    parent text,
    host text,
    entry text NOT NULL,
    PRIMARY KEY (ledger, id),
    UNIQUE (ledger, task, epoch)
);
CREATE INDEX run_by_age ON harness.run (ledger, created_at, id);

CREATE TABLE harness.iteration (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    run text NOT NULL,
    number bigint NOT NULL,
    host text,
    entry text NOT NULL,
    PRIMARY KEY (ledger, run, number)
);

CREATE TABLE harness.outbox (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    number bigint GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL,
    channel text NOT NULL,
    delivery text NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (ledger, id, channel)
);

-- Steps of the outbox and new runs of a ledger follow one another by locking this row.
CREATE TABLE harness.book (
    ledger bigint PRIMARY KEY REFERENCES harness.ledger (id)
);

CREATE TABLE harness.worker (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    id text NOT NULL,
    host text NOT NULL,
    boot text,
    pid bigint NOT NULL,
    version text NOT NULL,
    labels text[] NOT NULL,
    task text,
    state text NOT NULL,
    run text,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    PRIMARY KEY (ledger, id)
) WITH (fillfactor = 50);

-- The processes that serve a root: one for each machine and root. The id is made when it starts, so that
-- a message never reaches the next one.
CREATE TABLE harness.host (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    id uuid NOT NULL,
    machine text NOT NULL,
    boot text,
    root text NOT NULL,
    pid bigint NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger, id)
) WITH (fillfactor = 50);

-- The open questions. Those of a host that is removed vanish with it.
CREATE TABLE harness.question (
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    id text NOT NULL,
    host uuid NOT NULL,
    body text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger, id),
    FOREIGN KEY (ledger, host) REFERENCES harness.host (ledger, id) ON DELETE CASCADE
);
CREATE INDEX question_by_host ON harness.question (ledger, host);

-- Requests to hosts. A host takes a request before it carries it out, and then writes the answer.
CREATE TABLE harness.message (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ledger bigint NOT NULL REFERENCES harness.ledger (id),
    request uuid NOT NULL,
    host uuid NOT NULL,
    sender text NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_by uuid,
    taken_at timestamptz,
    answer text,
    answered_at timestamptz,
    UNIQUE (ledger, request, host)
);
CREATE INDEX message_waiting ON harness.message (ledger, host) WHERE taken_at IS NULL;
