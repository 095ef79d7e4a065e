SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA dbos;

CREATE FUNCTION dbos.enqueue_workflow(workflow_name text, queue_name text, positional_args json[] DEFAULT ARRAY[]::json[], named_args json DEFAULT '{}'::json, class_name text DEFAULT NULL::text, config_name text DEFAULT NULL::text, workflow_id text DEFAULT NULL::text, app_version text DEFAULT NULL::text, timeout_ms bigint DEFAULT NULL::bigint, deadline_epoch_ms bigint DEFAULT NULL::bigint, deduplication_id text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, queue_partition_key text DEFAULT NULL::text, authenticated_user text DEFAULT NULL::text, authenticated_roles text DEFAULT NULL::text, delay_until_epoch_ms bigint DEFAULT NULL::bigint, application_name text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_workflow_id TEXT;
    v_serialized_inputs TEXT;
    v_owner_xid TEXT;
    v_now BIGINT;
    v_recovery_attempts INT4 := 0;
    v_priority INT4;
    v_status TEXT;
BEGIN

    -- Validate required parameters
    IF workflow_name IS NULL OR workflow_name = '' THEN
        RAISE EXCEPTION 'Workflow name cannot be null or empty';
    END IF;
    IF queue_name IS NULL OR queue_name = '' THEN
        RAISE EXCEPTION 'Queue name cannot be null or empty';
    END IF;
    IF named_args IS NOT NULL AND jsonb_typeof(named_args::jsonb) != 'object' THEN
        RAISE EXCEPTION 'Named args must be a JSON object';
    END IF;
    IF workflow_id IS NOT NULL AND workflow_id = '' THEN
        RAISE EXCEPTION 'Workflow ID cannot be an empty string if provided.';
    END IF;
    IF delay_until_epoch_ms IS NOT NULL AND delay_until_epoch_ms < 0 THEN
        RAISE EXCEPTION 'delay_until_epoch_ms must be >= 0';
    END IF;

    v_workflow_id := COALESCE(workflow_id, gen_random_uuid()::TEXT);
    v_owner_xid := gen_random_uuid()::TEXT;
    v_priority := COALESCE(priority, 0);
    v_serialized_inputs := json_build_object(
        'positionalArgs', positional_args,
        'namedArgs', named_args
    )::TEXT;
    v_now := EXTRACT(epoch FROM now()) * 1000;
    v_status := CASE WHEN delay_until_epoch_ms IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END;

    INSERT INTO "dbos".workflow_status (
        workflow_uuid, status,
        name, class_name, config_name,
        queue_name, deduplication_id, priority, queue_partition_key,
        application_version,
        created_at, updated_at, recovery_attempts,
        workflow_timeout_ms, workflow_deadline_epoch_ms,
        parent_workflow_id, owner_xid, serialization,
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    ) VALUES (
        v_workflow_id, v_status,
        workflow_name, class_name, config_name,
        queue_name, deduplication_id, v_priority, queue_partition_key,
        app_version,
        v_now, v_now, v_recovery_attempts,
        timeout_ms, deadline_epoch_ms,
        NULL, v_owner_xid, 'portable_json',
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    )
    ON CONFLICT (workflow_uuid)
    DO UPDATE SET
        updated_at = EXCLUDED.updated_at;

    INSERT INTO "dbos".workflow_input (
        workflow_uuid, inputs, retention_timestamp
    ) VALUES (
        v_workflow_id, v_serialized_inputs, v_now
    )
    ON CONFLICT (workflow_uuid) DO NOTHING;

    RETURN v_workflow_id;

EXCEPTION
    WHEN unique_violation THEN
        RAISE EXCEPTION 'DBOS queue duplicated'
            USING DETAIL = format('Workflow %s with queue %s and deduplication ID %s already exists', v_workflow_id, queue_name, deduplication_id),
                ERRCODE = 'unique_violation';
END;
$$;

CREATE FUNCTION dbos.notifications_function() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    payload text := NEW.destination_uuid || '::' || NEW.topic;
BEGIN
    PERFORM pg_notify('dbos_notifications_channel', payload);
    RETURN NEW;
END;
$$;

CREATE FUNCTION dbos.send_message(destination_id text, message json, topic text DEFAULT NULL::text, message_id text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_topic TEXT := COALESCE(topic, '__null__topic__');
    v_message_id TEXT := COALESCE(message_id, gen_random_uuid()::TEXT);
BEGIN
    INSERT INTO "dbos".notifications (
        destination_uuid, topic, message, message_uuid, serialization
    ) VALUES (
        destination_id, v_topic, message, v_message_id, 'portable_json'
    )
    ON CONFLICT (message_uuid) DO NOTHING;
EXCEPTION
    WHEN foreign_key_violation THEN
        RAISE EXCEPTION 'DBOS non-existent workflow'
            USING DETAIL = format('Destination workflow %s does not exist', destination_id),
                ERRCODE = 'foreign_key_violation';
END;
$$;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE dbos.application_versions (
    version_id text NOT NULL,
    version_name text NOT NULL,
    version_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text
);

CREATE TABLE dbos.dbos_migrations (
    version bigint NOT NULL
);

CREATE TABLE dbos.event_dispatch_kv (
    service_name text NOT NULL,
    workflow_fn_name text NOT NULL,
    key text NOT NULL,
    value text,
    update_seq numeric(38,0),
    update_time numeric(38,15)
);

CREATE TABLE dbos.notifications (
    message_uuid text DEFAULT gen_random_uuid() NOT NULL,
    destination_uuid text NOT NULL,
    topic text,
    message text NOT NULL,
    created_at_epoch_ms bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    serialization text,
    consumed boolean DEFAULT false NOT NULL,
    consumed_by_function_id integer
);

CREATE TABLE dbos.operation_outputs (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    function_name text DEFAULT ''::text NOT NULL,
    output text,
    error text,
    child_workflow_id text,
    started_at_epoch_ms bigint,
    completed_at_epoch_ms bigint,
    serialization text,
    application_name text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);

CREATE TABLE dbos.queues (
    queue_id text DEFAULT (gen_random_uuid())::text NOT NULL,
    name text NOT NULL,
    concurrency integer,
    worker_concurrency integer,
    rate_limit_max integer,
    rate_limit_period_sec double precision,
    priority_enabled boolean DEFAULT false NOT NULL,
    partition_queue boolean DEFAULT false NOT NULL,
    polling_interval_sec double precision DEFAULT 1.0 NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text,
    partition_concurrency integer,
    partition_worker_concurrency integer,
    partition_rate_limit_max integer,
    partition_rate_limit_period_sec double precision
);

CREATE TABLE dbos.streams (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    "offset" integer NOT NULL,
    function_id integer DEFAULT 0 NOT NULL,
    serialization text
);

CREATE TABLE dbos.workflow_events (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);

CREATE TABLE dbos.workflow_events_history (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);

CREATE TABLE dbos.workflow_input (
    workflow_uuid text NOT NULL,
    inputs text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);

CREATE TABLE dbos.workflow_output (
    workflow_uuid text NOT NULL,
    output text,
    error text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);

CREATE TABLE dbos.workflow_schedules (
    schedule_id text NOT NULL,
    schedule_name text NOT NULL,
    workflow_name text NOT NULL,
    workflow_class_name text,
    schedule text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    context text NOT NULL,
    last_fired_at text,
    automatic_backfill boolean DEFAULT false NOT NULL,
    cron_timezone text,
    queue_name text,
    application_name text
);

CREATE TABLE dbos.workflow_status (
    workflow_uuid text NOT NULL,
    status text,
    name text,
    authenticated_user text,
    assumed_role text,
    authenticated_roles text,
    request text,
    output text,
    error text,
    executor_id text,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_version text,
    application_id text,
    class_name character varying(255) DEFAULT NULL::character varying,
    config_name character varying(255) DEFAULT NULL::character varying,
    recovery_attempts bigint DEFAULT 0,
    queue_name text,
    workflow_timeout_ms bigint,
    workflow_deadline_epoch_ms bigint,
    inputs text,
    started_at_epoch_ms bigint,
    deduplication_id text,
    priority integer DEFAULT 0 NOT NULL,
    queue_partition_key text,
    forked_from text,
    owner_xid text,
    parent_workflow_id text,
    serialization text,
    delay_until_epoch_ms bigint,
    was_forked_from boolean DEFAULT false NOT NULL,
    rate_limited boolean DEFAULT false NOT NULL,
    completed_at bigint,
    attributes jsonb,
    schedule_name text,
    debounce_deadline_epoch_ms bigint,
    is_debounced boolean DEFAULT false NOT NULL,
    application_name text,
    creator_xid text
);

CREATE TABLE public.checkpoint_blobs (
    thread_id text NOT NULL,
    checkpoint_ns text DEFAULT ''::text NOT NULL,
    channel text NOT NULL,
    version text NOT NULL,
    type text NOT NULL,
    blob bytea
);

CREATE TABLE public.checkpoint_migrations (
    v integer NOT NULL
);

CREATE TABLE public.checkpoint_writes (
    thread_id text NOT NULL,
    checkpoint_ns text DEFAULT ''::text NOT NULL,
    checkpoint_id text NOT NULL,
    task_id text NOT NULL,
    idx integer NOT NULL,
    channel text NOT NULL,
    type text,
    blob bytea NOT NULL,
    task_path text DEFAULT ''::text NOT NULL
);

CREATE TABLE public.checkpoints (
    thread_id text NOT NULL,
    checkpoint_ns text DEFAULT ''::text NOT NULL,
    checkpoint_id text NOT NULL,
    parent_checkpoint_id text,
    type text,
    checkpoint jsonb NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL
);

CREATE TABLE public.service_audit (
    id bigint NOT NULL,
    at double precision NOT NULL,
    tenant character varying NOT NULL,
    thread_id character varying NOT NULL,
    wait_id character varying,
    who character varying NOT NULL,
    what character varying NOT NULL,
    detail text
);

CREATE SEQUENCE public.service_audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.service_audit_id_seq OWNED BY public.service_audit.id;

CREATE TABLE public.service_effects (
    call_id character varying NOT NULL,
    tool character varying NOT NULL,
    state character varying NOT NULL,
    result bytea,
    started_at double precision NOT NULL
);

CREATE TABLE public.service_events (
    id bigint NOT NULL,
    job character varying NOT NULL,
    data bytea NOT NULL,
    at double precision NOT NULL
);

CREATE SEQUENCE public.service_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.service_events_id_seq OWNED BY public.service_events.id;

CREATE TABLE public.service_ledger (
    scope character varying NOT NULL,
    amount character varying NOT NULL,
    spent double precision NOT NULL,
    reserved double precision NOT NULL
);

CREATE TABLE public.service_limits (
    tenant character varying NOT NULL,
    concurrency integer,
    per_minute integer
);

CREATE TABLE public.service_reservations (
    id character varying NOT NULL,
    scope character varying NOT NULL,
    amounts text NOT NULL,
    owner character varying NOT NULL,
    expires double precision NOT NULL
);

CREATE TABLE public.service_runs (
    seq bigint NOT NULL,
    run_id character varying NOT NULL,
    thread_id character varying NOT NULL,
    tenant character varying NOT NULL,
    agent character varying NOT NULL,
    priority integer NOT NULL,
    payload text NOT NULL,
    job character varying,
    created_at double precision NOT NULL
);

CREATE SEQUENCE public.service_runs_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.service_runs_seq_seq OWNED BY public.service_runs.seq;

CREATE TABLE public.service_threads (
    thread_id character varying NOT NULL,
    tenant character varying NOT NULL,
    agent character varying NOT NULL,
    status character varying NOT NULL,
    epoch bigint NOT NULL,
    owner character varying,
    run character varying,
    jobs bigint NOT NULL,
    plan character varying,
    context text,
    title character varying,
    error text,
    updated_at double precision NOT NULL
);

CREATE TABLE public.service_waits (
    wait_id character varying NOT NULL,
    thread_id character varying NOT NULL,
    tenant character varying NOT NULL,
    agent character varying NOT NULL,
    run character varying NOT NULL,
    call_id character varying NOT NULL,
    digest character varying NOT NULL,
    tool character varying NOT NULL,
    kind character varying NOT NULL,
    args text NOT NULL,
    question text,
    allowed character varying NOT NULL,
    priority integer NOT NULL,
    created_at double precision NOT NULL,
    deadline double precision,
    late character varying NOT NULL,
    claimed_by character varying,
    claimed_until double precision,
    decided_at double precision,
    decided_by character varying,
    decision text,
    checkpoint_id character varying
);

CREATE TABLE public.service_workers (
    id character varying NOT NULL,
    beat double precision NOT NULL,
    draining boolean NOT NULL,
    detail text
);

ALTER TABLE ONLY public.service_audit ALTER COLUMN id SET DEFAULT nextval('public.service_audit_id_seq'::regclass);

ALTER TABLE ONLY public.service_events ALTER COLUMN id SET DEFAULT nextval('public.service_events_id_seq'::regclass);

ALTER TABLE ONLY public.service_runs ALTER COLUMN seq SET DEFAULT nextval('public.service_runs_seq_seq'::regclass);

INSERT INTO dbos.application_versions VALUES
	('bbba4c54-83cf-4cfb-b580-9c47d788a87b', '1', 1795669256571, 1795669256571, 'agent_factory');

INSERT INTO dbos.dbos_migrations VALUES
	(125);

INSERT INTO dbos.queues VALUES
	('addccfc8-4617-45fa-93af-0e9ecc420e85', 'agent_factory:acme', 1, NULL, NULL, NULL, true, true, 0.1, 1795669256557, 1795669256556, 'agent_factory', 1, NULL, NULL, NULL),
	('ad8c519e-3a1d-4484-819d-9322c3478f03', 'agent_factory', NULL, 1, NULL, NULL, true, true, 0.1, 1795669256563, 1795669256563, 'agent_factory', 1, NULL, NULL, NULL);

INSERT INTO dbos.workflow_input VALUES
	('done/00000001', 'gASVqgEAAAAAAAB9lCiMBGFyZ3OUjARkb25llFiEAQAAeyJraW5kIjogIm1lc3NhZ2UiLCAicnVuIjogIjBiM2I4NmU0NWFjZGQ3MTI0YWM1NWQ5NDYzNzQxYjY0IiwgInRocmVhZCI6ICJkb25lIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlVkJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBVaGxiR3h2c1dGa1pHbDBhVzl1WVd4ZmEzZGhjbWR6Z0xGeVpYTndiMjV6WlY5dFpYUmhaR0YwWVlDa2RIbHdaYVZvZFcxaGJxUnVZVzFsd0tKcFpLdGtiMjVsT2lCSVpXeHNiN050YjJSbGJGOTJZV3hwWkdGMFpWOXFjMjl1IiwgImNvbnRleHQiOiBudWxsfZSGlIwGa3dhcmdzlH2UdS4=', 1795669256596),
	('paid/00000001', 'gASVrgEAAAAAAAB9lCiMBGFyZ3OUjARwYWlklFiIAQAAeyJraW5kIjogIm1lc3NhZ2UiLCAicnVuIjogImE0ODY3NWZjMTNjNWFhMTdmOWFiYzg3ZmZlYWMyNjRiIiwgInRocmVhZCI6ICJwYWlkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlWEJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBsQmhlU0F4TUxGaFpHUnBkR2x2Ym1Gc1gydDNZWEpuYzRDeGNtVnpjRzl1YzJWZmJXVjBZV1JoZEdHQXBIUjVjR1dsYUhWdFlXNmtibUZ0WmNDaWFXU3NjR0ZwWkRvZ1VHRjVJREV3czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjb250ZXh0IjogbnVsbH2UhpSMBmt3YXJnc5R9lHUu', 1795669256745),
	('review/00000001', 'gASVtgEAAAAAAAB9lCiMBGFyZ3OUjAZyZXZpZXeUWI4BAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZDExMTQ0NTBhMzNkZWIxMDBhYzY5MjFlMDllMTZlMmEiLCAidGhyZWFkIjogInJldmlldyIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVpCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwbEJoZVNBeE1yRmhaR1JwZEdsdmJtRnNYMnQzWVhKbmM0Q3hjbVZ6Y0c5dWMyVmZiV1YwWVdSaGRHR0FwSFI1Y0dXbGFIVnRZVzZrYm1GdFpjQ2lhV1N1Y21WMmFXVjNPaUJRWVhrZ01US3piVzlrWld4ZmRtRnNhV1JoZEdWZmFuTnZiZz09IiwgImNvbnRleHQiOiBudWxsfZSGlIwGa3dhcmdzlH2UdS4=', 1795669256871),
	('decided/00000001', 'gASVuAEAAAAAAAB9lCiMBGFyZ3OUjAdkZWNpZGVklFiPAQAAeyJraW5kIjogIm1lc3NhZ2UiLCAicnVuIjogImJlYTdjM2YwZTQ2ZjhiNDQ4OTQ2Nzg5OTE4MTgzOTNkIiwgInRocmVhZCI6ICJkZWNpZGVkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlYUJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBsQmhlU0F4TTdGaFpHUnBkR2x2Ym1Gc1gydDNZWEpuYzRDeGNtVnpjRzl1YzJWZmJXVjBZV1JoZEdHQXBIUjVjR1dsYUhWdFlXNmtibUZ0WmNDaWFXU3ZaR1ZqYVdSbFpEb2dVR0Y1SURFenMyMXZaR1ZzWDNaaGJHbGtZWFJsWDJwemIyND0iLCAiY29udGV4dCI6IG51bGx9lIaUjAZrd2FyZ3OUfZR1Lg==', 1795669256986),
	('held/00000001', 'gASVrgEAAAAAAAB9lCiMBGFyZ3OUjARoZWxklFiIAQAAeyJraW5kIjogIm1lc3NhZ2UiLCAicnVuIjogImVhYTZiYmYzNmNjYjViZmRjMjllMWM3Y2Q1YTYwZGFjIiwgInRocmVhZCI6ICJoZWxkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlWEJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBsQmhlU0F4TkxGaFpHUnBkR2x2Ym1Gc1gydDNZWEpuYzRDeGNtVnpjRzl1YzJWZmJXVjBZV1JoZEdHQXBIUjVjR1dsYUhWdFlXNmtibUZ0WmNDaWFXU3NhR1ZzWkRvZ1VHRjVJREUwczIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjb250ZXh0IjogbnVsbH2UhpSMBmt3YXJnc5R9lHUu', 1795669257087),
	('paid/00000002', 'gASV7gAAAAAAAAB9lCiMBGFyZ3OUjARwYWlklIzLeyJraW5kIjogImRlY2lzaW9uIiwgInJ1biI6ICJhNDg2NzVmYzEzYzVhYTE3ZjlhYmM4N2ZmZWFjMjY0YiIsICJ0aHJlYWQiOiAicGFpZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImRlY2lzaW9ucyI6IHsiNDgwZDY5NzAwZTVkYmVhMmJhOWU1NjAxYmZkM2VhNmMiOiB7InR5cGUiOiAiYXBwcm92ZSJ9fX2UhpSMBmt3YXJnc5R9lHUu', 1795669257201),
	('running/00000001', 'gASVtAEAAAAAAAB9lCiMBGFyZ3OUjAdydW5uaW5nlFiLAQAAeyJraW5kIjogIm1lc3NhZ2UiLCAicnVuIjogIjIyMWUzNWE2ZDhiMDRiOGQ1ZTg1NjFkNGZiZDcxMWNlIiwgInRocmVhZCI6ICJydW5uaW5nIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlWUJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBVSnNiMk5yc1dGa1pHbDBhVzl1WVd4ZmEzZGhjbWR6Z0xGeVpYTndiMjV6WlY5dFpYUmhaR0YwWVlDa2RIbHdaYVZvZFcxaGJxUnVZVzFsd0tKcFpLNXlkVzV1YVc1bk9pQkNiRzlqYTdOdGIyUmxiRjkyWVd4cFpHRjBaVjlxYzI5dSIsICJjb250ZXh0IjogbnVsbH2UhpSMBmt3YXJnc5R9lHUu', 1795669257320),
	('running/00000002', 'gASVtAEAAAAAAAB9lCiMBGFyZ3OUjAdydW5uaW5nlFiLAQAAeyJraW5kIjogIm1lc3NhZ2UiLCAicnVuIjogIjRjZGFiZmU5N2JiNzczMmY3M2I5MjcwYTU2YzRiZDY2IiwgInRocmVhZCI6ICJydW5uaW5nIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlWUJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBVRm1kR1Z5c1dGa1pHbDBhVzl1WVd4ZmEzZGhjbWR6Z0xGeVpYTndiMjV6WlY5dFpYUmhaR0YwWVlDa2RIbHdaYVZvZFcxaGJxUnVZVzFsd0tKcFpLNXlkVzV1YVc1bk9pQkJablJsY3JOdGIyUmxiRjkyWVd4cFpHRjBaVjlxYzI5dSIsICJjb250ZXh0IjogbnVsbH2UhpSMBmt3YXJnc5R9lHUu', 1795669257399),
	('decided/00000002', 'gASV9AAAAAAAAAB9lCiMBGFyZ3OUjAdkZWNpZGVklIzOeyJraW5kIjogImRlY2lzaW9uIiwgInJ1biI6ICJiZWE3YzNmMGU0NmY4YjQ0ODk0Njc4OTkxODE4MzkzZCIsICJ0aHJlYWQiOiAiZGVjaWRlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImRlY2lzaW9ucyI6IHsiODlmZDI0MTIxNjYzYmI4YTJkMDQ2Njg4YTc4NjRhNGIiOiB7InR5cGUiOiAiYXBwcm92ZSJ9fX2UhpSMBmt3YXJnc5R9lHUu', 1795669257402),
	('queued/00000001', 'gASVwwEAAAAAAAB9lCiMBGFyZ3OUjAZxdWV1ZWSUWJsBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNTc2MDliYmM5OWFmOGY5ZmU3MjI1MzUwMDVlNmZiMGYiLCAidGhyZWFkIjogInF1ZXVlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogNSwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVhCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwVVpwY25OMHNXRmtaR2wwYVc5dVlXeGZhM2RoY21kemdMRnlaWE53YjI1elpWOXRaWFJoWkdGMFlZQ2tkSGx3WmFWb2RXMWhicVJ1WVcxbHdLSnBaSzF4ZFdWMVpXUTZJRVpwY25OMHMyMXZaR1ZzWDNaaGJHbGtZWFJsWDJwemIyND0iLCAiY29udGV4dCI6ICJ7XCJ1c2VyXCI6IFwiYW5uXCJ9In2UhpSMBmt3YXJnc5R9lHUu', 1795669257410),
	('queued/00000002', 'gASVtgEAAAAAAAB9lCiMBGFyZ3OUjAZxdWV1ZWSUWI4BAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiODI5ODY4OGJiMzAxN2ZkZDM5NmU0MDY5YzQ0YWVlNmIiLCAidGhyZWFkIjogInF1ZXVlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVpCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwbE5sWTI5dVpMRmhaR1JwZEdsdmJtRnNYMnQzWVhKbmM0Q3hjbVZ6Y0c5dWMyVmZiV1YwWVdSaGRHR0FwSFI1Y0dXbGFIVnRZVzZrYm1GdFpjQ2lhV1N1Y1hWbGRXVmtPaUJUWldOdmJtU3piVzlrWld4ZmRtRnNhV1JoZEdWZmFuTnZiZz09IiwgImNvbnRleHQiOiBudWxsfZSGlIwGa3dhcmdzlH2UdS4=', 1795669257414),
	('now/00000001', 'gASVqAEAAAAAAAB9lCiMBGFyZ3OUjANub3eUWIMBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNGNlZjUyYmFmNzMwZDE4MzVmMzA0YjE3YjZlMGMzOWUiLCAidGhyZWFkIjogIm5vdyIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVVCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwVXhoZEdWeXNXRmtaR2wwYVc5dVlXeGZhM2RoY21kemdMRnlaWE53YjI1elpWOXRaWFJoWkdGMFlZQ2tkSGx3WmFWb2RXMWhicVJ1WVcxbHdLSnBaS3B1YjNjNklFeGhkR1Z5czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjb250ZXh0IjogbnVsbH2UhpSMBmt3YXJnc5R9lHUu', 1795669257425);

INSERT INTO dbos.workflow_output VALUES
	('done/00000001', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZDUxYS02MzE1LTgwMDEtMGZkODQ4Y2NmODE0lHUu', NULL, 1795669256735),
	('paid/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZDYyNS02OThjLTgwMDEtZDZiODM5NmU1ZTI3lHUu', NULL, 1795669256849),
	('review/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZDczYy02MjZjLTgwMDEtYTMyNTJjODk1ZmY2lHUu', NULL, 1795669256965),
	('decided/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZDg0Yy02Yjk2LTgwMDEtM2QwZGJjOTBmOTkxlHUu', NULL, 1795669257074),
	('held/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZDk1NS02ZDM4LTgwMDEtOTUzMjJmNGVkY2I4lHUu', NULL, 1795669257181),
	('paid/00000002', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZGE3ZS02YjVmLTgwMDQtMDczMTEwNzgyNjVmlHUu', NULL, 1795669257299);

INSERT INTO dbos.workflow_schedules VALUES
	('a2abe4db-abbf-43a3-bfb9-b2148fc2f0d7', 'nightly', 'agent_factory.run_schedule', NULL, '0 3 * * *', 'ACTIVE', 'gASVaAAAAAAAAACMZHsiYWdlbnQiOiAiZGVzayIsICJtZXNzYWdlIjogIkdvb2QgbmlnaHQiLCAidGhyZWFkIjogIm5pZ2h0bHkiLCAidGVuYW50IjogImFjbWUiLCAibmFtZSI6ICJuaWdodGx5In2ULg==', NULL, false, 'Europe/Berlin', NULL, 'agent_factory');

INSERT INTO dbos.workflow_status VALUES
	('done/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669256596, 1795669256735, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669256694, NULL, 1000, 'done', NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669256735, 'null', NULL, NULL, false, 'agent_factory', '90352f6b-64b8-4a96-92b9-8bc3e765e615'),
	('paid/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669256745, 1795669256849, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669256813, NULL, 1000, 'paid', NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669256849, 'null', NULL, NULL, false, 'agent_factory', '9f5c151c-49a3-414d-868a-b7408599cda8'),
	('review/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669256871, 1795669256965, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669256927, NULL, 1000, 'review', NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669256965, 'null', NULL, NULL, false, 'agent_factory', '404c5054-4a5a-4434-a7db-5f8a877fa14c'),
	('decided/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669256986, 1795669257074, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669257040, NULL, 1000, 'decided', NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669257074, 'null', NULL, NULL, false, 'agent_factory', '2582d6a8-544a-4e2e-9b63-ef0c2f5d66c8'),
	('held/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669257087, 1795669257181, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669257152, NULL, 1000, 'held', NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669257181, 'null', NULL, NULL, false, 'agent_factory', 'a503f0ac-d75d-427d-9507-71627f36c642'),
	('paid/00000002', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669257201, 1795669257299, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669257261, NULL, 1000, 'paid', NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669257299, 'null', NULL, NULL, false, 'agent_factory', '1fb2ab94-22cf-41a0-a575-24d4100e1155'),
	('running/00000001', 'PENDING', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20513-409150b6', 1795669257320, 1795669257381, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669257381, NULL, 1000, 'running', NULL, 'e2dd08ab-e0b0-4657-b980-f9642f859d09', NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', 'e7a72ef6-6f65-4fe1-b2b2-4189085b5fee'),
	('running/00000002', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669257399, 1795669257399, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1000, 'running', NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '4c6c5a99-7cbd-4be8-89fc-52b4cf322c32'),
	('decided/00000002', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669257402, 1795669257402, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1000, 'decided', NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '5e61e35d-2eae-42f2-9ad9-3b0bfee7317a'),
	('queued/00000001', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669257410, 1795669257410, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 995, 'queued', NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '35db35e5-36a4-4fa9-8196-5f428bb5c98b'),
	('queued/00000002', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669257414, 1795669257414, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1000, 'queued', NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '25135a3d-62af-43f4-af5b-cd616053bbed'),
	('now/00000001', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669257425, 1795669257425, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1000, 'now', NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '9e1f3862-3488-4fb0-99f8-9c4e1699126f');

INSERT INTO public.checkpoint_blobs VALUES
	('done', '', '__start__', '00000000000000000000000000000001.0.3908157631502326', 'msgpack', '\x81a86d6573736167657391c7950594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ab646f6e653a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e'),
	('paid', '', '__start__', '00000000000000000000000000000001.0.7098337034378428', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac706169643a20506179203130b36d6f64656c5f76616c69646174655f6a736f6e'),
	('review', '', '__start__', '00000000000000000000000000000001.0.18090184662782594', 'msgpack', '\x81a86d6573736167657391c7990594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203132b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae7265766965773a20506179203132b36d6f64656c5f76616c69646174655f6a736f6e'),
	('decided', '', '__start__', '00000000000000000000000000000001.0.5287114118026432', 'msgpack', '\x81a86d6573736167657391c79a0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203133b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964af646563696465643a20506179203133b36d6f64656c5f76616c69646174655f6a736f6e'),
	('held', '', '__start__', '00000000000000000000000000000001.0.9007900965082805', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203134b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac68656c643a20506179203134b36d6f64656c5f76616c69646174655f6a736f6e'),
	('paid', '', '__pregel_tasks', '00000000000000000000000000000004.0.5825704876651902', 'msgpack', '\x91c74f0193af6c616e6767726170682e7479706573a453656e6492a5746f6f6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6c'),
	('paid', '', '__pregel_tasks', '00000000000000000000000000000005.0.18450934698225774', 'msgpack', '\x90'),
	('running', '', '__start__', '00000000000000000000000000000001.0.1178254561495864', 'msgpack', '\x81a86d6573736167657391c7980594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a5426c6f636bb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae72756e6e696e673a20426c6f636bb36d6f64656c5f76616c69646174655f6a736f6e');

INSERT INTO public.checkpoint_migrations VALUES
	(0),
	(1),
	(2),
	(3),
	(4),
	(5),
	(6),
	(7),
	(8),
	(9);

INSERT INTO public.checkpoint_writes VALUES
	('done', '', '1f1e9565-d4f6-6a53-bfff-7764a77feda6', '8f0124dc-5e03-50b6-4f2e-963852601815', 0, 'messages', 'msgpack', '\x91c7950594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ab646f6e653a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('done', '', '1f1e9565-d4f6-6a53-bfff-7764a77feda6', '8f0124dc-5e03-50b6-4f2e-963852601815', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('done', '', '1f1e9565-d4fe-6770-8000-76fb19792031', '6e711e65-3d09-2773-7b3b-9f8da9d62918', 0, 'messages', 'msgpack', '\x91c7e00594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ab446f6e653a2048656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d30623035623863372d336538342d343532652d383532312d353038363732313062326538aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('done', '', '1f1e9565-d4fe-6770-8000-76fb19792031', '6e711e65-3d09-2773-7b3b-9f8da9d62918', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('done', '', '1f1e9565-d4fe-6770-8000-76fb19792031', '6e711e65-3d09-2773-7b3b-9f8da9d62918', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9565-d60a-61ed-bfff-cac219e9d9c5', '5bebb8e7-301b-4eee-2409-1145bb38b901', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac706169643a20506179203130b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9565-d60a-61ed-bfff-cac219e9d9c5', '5bebb8e7-301b-4eee-2409-1145bb38b901', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9565-d60f-633e-8000-4401d73970ee', 'a02bfedb-e990-9812-671c-b20b2eddf9f2', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d61613863613364302d323138632d346562632d623964642d643164373762373137656664aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('paid', '', '1f1e9565-d60f-633e-8000-4401d73970ee', 'a02bfedb-e990-9812-671c-b20b2eddf9f2', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('paid', '', '1f1e9565-d60f-633e-8000-4401d73970ee', 'a02bfedb-e990-9812-671c-b20b2eddf9f2', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9565-d625-698c-8001-d6b8396e5e27', '509a6eab-37b8-f23c-6c29-8a08c56a1dea', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730aab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031307dac746f6f6c5f63616c6c5f6964a763616c6c2d3130ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206431363933343439616262336238396463343032666634343865306334383035af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('review', '', '1f1e9565-d71f-6098-bfff-4a3e097579ca', 'e2a46b6d-1fc9-295c-b3ab-03c8825abadc', 0, 'messages', 'msgpack', '\x91c7990594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203132b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae7265766965773a20506179203132b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('review', '', '1f1e9565-d71f-6098-bfff-4a3e097579ca', 'e2a46b6d-1fc9-295c-b3ab-03c8825abadc', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('review', '', '1f1e9565-d723-6c2f-8000-205979ca7e54', '3e6a0f95-066d-c4d8-3cd1-f246e4c13e09', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d38613966383933612d336536322d343238322d393961302d396337313961313936343235aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730ca26964a763616c6c2d3132a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('review', '', '1f1e9565-d723-6c2f-8000-205979ca7e54', '3e6a0f95-066d-c4d8-3cd1-f246e4c13e09', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('review', '', '1f1e9565-d723-6c2f-8000-205979ca7e54', '3e6a0f95-066d-c4d8-3cd1-f246e4c13e09', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('review', '', '1f1e9565-d73c-626c-8001-a3252c895ff6', '67cf0fbc-2839-47eb-e03c-28eb2c44035e', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730cab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031327dac746f6f6c5f63616c6c5f6964a763616c6c2d3132ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9203734616235303763303437353765633665366664653831343164393564666234af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('decided', '', '1f1e9565-d82f-6b74-bfff-e352c5f93917', 'a48ea920-3da7-596b-3de7-87da71158b21', 0, 'messages', 'msgpack', '\x91c79a0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203133b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964af646563696465643a20506179203133b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('decided', '', '1f1e9565-d82f-6b74-bfff-e352c5f93917', 'a48ea920-3da7-596b-3de7-87da71158b21', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('decided', '', '1f1e9565-d837-6930-8000-88003221077b', '0e3421e1-56b3-7b13-e504-feb232d1fa20', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d65393636306666392d626632342d343364392d383332362d656238623536626562613065aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730da26964a763616c6c2d3133a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('decided', '', '1f1e9565-d837-6930-8000-88003221077b', '0e3421e1-56b3-7b13-e504-feb232d1fa20', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('decided', '', '1f1e9565-d837-6930-8000-88003221077b', '0e3421e1-56b3-7b13-e504-feb232d1fa20', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('held', '', '1f1e9565-d93e-6a84-8000-2d18b112c116', 'db051036-8246-25d7-bd55-7928dd97a137', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d38396235323866372d666162342d343162332d383563362d613838373831363737326137aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730ea26964a763616c6c2d3134a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('held', '', '1f1e9565-d93e-6a84-8000-2d18b112c116', 'db051036-8246-25d7-bd55-7928dd97a137', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('held', '', '1f1e9565-d93e-6a84-8000-2d18b112c116', 'db051036-8246-25d7-bd55-7928dd97a137', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('decided', '', '1f1e9565-d84c-6b96-8001-3d0dbc90f991', '5dc15640-9582-af3e-d1bd-98249ef6b38b', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730dab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031337dac746f6f6c5f63616c6c5f6964a763616c6c2d3133ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206631303264363939626566336235383064623939303561326135623737336665af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('held', '', '1f1e9565-d93b-6ee9-bfff-931f43f3891e', 'f0b01f3e-803f-0372-98f2-240a81aea8b3', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203134b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac68656c643a20506179203134b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('held', '', '1f1e9565-d93b-6ee9-bfff-931f43f3891e', 'f0b01f3e-803f-0372-98f2-240a81aea8b3', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9565-da6f-6127-8003-60ac58710012', 'f8c7b2d1-4ae3-6630-cd22-32496bcc3d16', 0, 'messages', 'msgpack', '\x91c7e10594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ac446f6e653a20506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d30373037616639372d643431392d346330372d616634372d326130626636333231376264aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('paid', '', '1f1e9565-da6f-6127-8003-60ac58710012', 'f8c7b2d1-4ae3-6630-cd22-32496bcc3d16', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('paid', '', '1f1e9565-da6f-6127-8003-60ac58710012', 'f8c7b2d1-4ae3-6630-cd22-32496bcc3d16', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('held', '', '1f1e9565-d955-6d38-8001-95322f4edcb8', '87392188-f6a3-b352-8e46-1c3b5d3ccd4b', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730eab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031347dac746f6f6c5f63616c6c5f6964a763616c6c2d3134ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9203734376635626364326438333866643731633330623836313238373763343438af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-d625-698c-8001-d6b8396e5e27', '509a6eab-37b8-f23c-6c29-8a08c56a1dea', -4, '__resume__', 'msgpack', '\x9181a96465636973696f6e739181a474797065a7617070726f7665', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-d625-698c-8001-d6b8396e5e27', '509a6eab-37b8-f23c-6c29-8a08c56a1dea', 1, 'messages', 'msgpack', '\x91c801380594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746181ae72657669657765645f63616c6c7381b848756d616e496e5468654c6f6f704d6964646c657761726591a763616c6c2d3130a474797065a26169a46e616d65c0a26964d92872756e2d61613863613364302d323138632d346562632d623964642d643164373762373137656664aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-d625-698c-8001-d6b8396e5e27', '509a6eab-37b8-f23c-6c29-8a08c56a1dea', 2, '__pregel_tasks', 'msgpack', '\xc74f0193af6c616e6767726170682e7479706573a453656e6492a5746f6f6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6c', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-da59-66a2-8002-553cba1346c9', '83b3717d-3c49-be6a-0fa8-002ed5b4f52e', 0, 'messages', 'msgpack', '\x91c7e00594bc6c616e67636861696e5f636f72652e6d657373616765732e746f6f6cab546f6f6c4d65737361676589a7636f6e74656e74a8506169642031302eb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a4746f6f6ca46e616d65a3706179a26964d92439646362626531622d346464312d343865662d396531382d643464313139333531383562ac746f6f6c5f63616c6c5f6964a763616c6c2d3130a86172746966616374c0a6737461747573a773756363657373b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_push, 0000000000, 0000000000'),
	('paid', '', '1f1e9565-da59-66a2-8002-553cba1346c9', '83b3717d-3c49-be6a-0fa8-002ed5b4f52e', 1, 'branch:to:model', 'null', '\x', '~__pregel_push, 0000000000, 0000000000'),
	('running', '', '1f1e9565-db68-6d40-bfff-72c015df70e9', '801aeb15-dfc4-0ea2-47da-5d6c6117750d', 0, 'messages', 'msgpack', '\x91c7980594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a5426c6f636bb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae72756e6e696e673a20426c6f636bb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('running', '', '1f1e9565-db68-6d40-bfff-72c015df70e9', '801aeb15-dfc4-0ea2-47da-5d6c6117750d', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__');

INSERT INTO public.checkpoints VALUES
	('done', '', '1f1e9565-d4f6-6a53-bfff-7764a77feda6', NULL, NULL, '{"v": 4, "id": "1f1e9565-d4f6-6a53-bfff-7764a77feda6", "ts": "2026-11-26T05:00:56.714086+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.3908157631502326"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/00000001", "agent_factory_run": "0b3b86e45acdd7124ac55d9463741b64", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('done', '', '1f1e9565-d4fe-6770-8000-76fb19792031', '1f1e9565-d4f6-6a53-bfff-7764a77feda6', NULL, '{"v": 4, "id": "1f1e9565-d4fe-6770-8000-76fb19792031", "ts": "2026-11-26T05:00:56.717287+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.3908157631502326"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.7612734389569275", "__start__": "00000000000000000000000000000002.0.7612734389569275", "branch:to:model": "00000000000000000000000000000002.0.7612734389569275"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/00000001", "agent_factory_run": "0b3b86e45acdd7124ac55d9463741b64", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('done', '', '1f1e9565-d51a-6315-8001-0fd848ccf814', '1f1e9565-d4fe-6770-8000-76fb19792031', NULL, '{"v": 4, "id": "1f1e9565-d51a-6315-8001-0fd848ccf814", "ts": "2026-11-26T05:00:56.728644+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.7612734389569275"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.3908157631502326"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000003.0.7357592361348959", "__start__": "00000000000000000000000000000002.0.7612734389569275", "loop_last_node": "00000000000000000000000000000003.0.7357592361348959", "branch:to:model": "00000000000000000000000000000003.0.7357592361348959"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/00000001", "agent_factory_run": "0b3b86e45acdd7124ac55d9463741b64", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('paid', '', '1f1e9565-d60a-61ed-bfff-cac219e9d9c5', NULL, NULL, '{"v": 4, "id": "1f1e9565-d60a-61ed-bfff-cac219e9d9c5", "ts": "2026-11-26T05:00:56.826923+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.7098337034378428"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000001", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('paid', '', '1f1e9565-d60f-633e-8000-4401d73970ee', '1f1e9565-d60a-61ed-bfff-cac219e9d9c5', NULL, '{"v": 4, "id": "1f1e9565-d60f-633e-8000-4401d73970ee", "ts": "2026-11-26T05:00:56.829000+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7098337034378428"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.8814623805549171", "__start__": "00000000000000000000000000000002.0.8814623805549171", "branch:to:model": "00000000000000000000000000000002.0.8814623805549171"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000001", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('paid', '', '1f1e9565-d625-698c-8001-d6b8396e5e27', '1f1e9565-d60f-633e-8000-4401d73970ee', NULL, '{"v": 4, "id": "1f1e9565-d625-698c-8001-d6b8396e5e27", "ts": "2026-11-26T05:00:56.838170+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8814623805549171"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7098337034378428"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.27024986367430026", "__start__": "00000000000000000000000000000002.0.8814623805549171", "loop_last_node": "00000000000000000000000000000003.0.27024986367430026", "branch:to:model": "00000000000000000000000000000003.0.27024986367430026", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000001", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('review', '', '1f1e9565-d71f-6098-bfff-4a3e097579ca', NULL, NULL, '{"v": 4, "id": "1f1e9565-d71f-6098-bfff-4a3e097579ca", "ts": "2026-11-26T05:00:56.940349+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.18090184662782594"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/00000001", "agent_factory_run": "d1114450a33deb100ac6921e09e16e2a", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('review', '', '1f1e9565-d723-6c2f-8000-205979ca7e54', '1f1e9565-d71f-6098-bfff-4a3e097579ca', NULL, '{"v": 4, "id": "1f1e9565-d723-6c2f-8000-205979ca7e54", "ts": "2026-11-26T05:00:56.942279+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.18090184662782594"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.5769697220793243", "__start__": "00000000000000000000000000000002.0.5769697220793243", "branch:to:model": "00000000000000000000000000000002.0.5769697220793243"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/00000001", "agent_factory_run": "d1114450a33deb100ac6921e09e16e2a", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('review', '', '1f1e9565-d73c-626c-8001-a3252c895ff6', '1f1e9565-d723-6c2f-8000-205979ca7e54', NULL, '{"v": 4, "id": "1f1e9565-d73c-626c-8001-a3252c895ff6", "ts": "2026-11-26T05:00:56.952267+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.5769697220793243"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.18090184662782594"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.2889710259484769", "__start__": "00000000000000000000000000000002.0.5769697220793243", "loop_last_node": "00000000000000000000000000000003.0.2889710259484769", "branch:to:model": "00000000000000000000000000000003.0.2889710259484769", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.2889710259484769"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/00000001", "agent_factory_run": "d1114450a33deb100ac6921e09e16e2a", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('decided', '', '1f1e9565-d837-6930-8000-88003221077b', '1f1e9565-d82f-6b74-bfff-e352c5f93917', NULL, '{"v": 4, "id": "1f1e9565-d837-6930-8000-88003221077b", "ts": "2026-11-26T05:00:57.055253+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.5287114118026432"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.9649807318082254", "__start__": "00000000000000000000000000000002.0.9649807318082254", "branch:to:model": "00000000000000000000000000000002.0.9649807318082254"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/00000001", "agent_factory_run": "bea7c3f0e46f8b44894678991818393d", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('decided', '', '1f1e9565-d84c-6b96-8001-3d0dbc90f991', '1f1e9565-d837-6930-8000-88003221077b', NULL, '{"v": 4, "id": "1f1e9565-d84c-6b96-8001-3d0dbc90f991", "ts": "2026-11-26T05:00:57.063915+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.9649807318082254"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.5287114118026432"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.62085722990235", "__start__": "00000000000000000000000000000002.0.9649807318082254", "loop_last_node": "00000000000000000000000000000003.0.62085722990235", "branch:to:model": "00000000000000000000000000000003.0.62085722990235", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.62085722990235"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/00000001", "agent_factory_run": "bea7c3f0e46f8b44894678991818393d", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('held', '', '1f1e9565-d93b-6ee9-bfff-931f43f3891e', NULL, NULL, '{"v": 4, "id": "1f1e9565-d93b-6ee9-bfff-931f43f3891e", "ts": "2026-11-26T05:00:57.161899+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.9007900965082805"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/00000001", "agent_factory_run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('held', '', '1f1e9565-d955-6d38-8001-95322f4edcb8', '1f1e9565-d93e-6a84-8000-2d18b112c116', NULL, '{"v": 4, "id": "1f1e9565-d955-6d38-8001-95322f4edcb8", "ts": "2026-11-26T05:00:57.172499+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.6553269379525729"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.9007900965082805"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.9505996028728334", "__start__": "00000000000000000000000000000002.0.6553269379525729", "loop_last_node": "00000000000000000000000000000003.0.9505996028728334", "branch:to:model": "00000000000000000000000000000003.0.9505996028728334", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.9505996028728334"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/00000001", "agent_factory_run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('running', '', '1f1e9565-db6b-6fb0-8000-e71b81065b3f', '1f1e9565-db68-6d40-bfff-72c015df70e9', NULL, '{"v": 4, "id": "1f1e9565-db6b-6fb0-8000-e71b81065b3f", "ts": "2026-11-26T05:00:57.391291+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.1178254561495864"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.5195396312057543", "__start__": "00000000000000000000000000000002.0.5195396312057543", "branch:to:model": "00000000000000000000000000000002.0.5195396312057543"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "running/00000001", "agent_factory_run": "221e35a6d8b04b8d5e8561d4fbd711ce", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('decided', '', '1f1e9565-d82f-6b74-bfff-e352c5f93917', NULL, NULL, '{"v": 4, "id": "1f1e9565-d82f-6b74-bfff-e352c5f93917", "ts": "2026-11-26T05:00:57.052038+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.5287114118026432"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/00000001", "agent_factory_run": "bea7c3f0e46f8b44894678991818393d", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('paid', '', '1f1e9565-da59-66a2-8002-553cba1346c9', '1f1e9565-d625-698c-8001-d6b8396e5e27', NULL, '{"v": 4, "id": "1f1e9565-da59-66a2-8002-553cba1346c9", "ts": "2026-11-26T05:00:57.278820+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8814623805549171"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7098337034378428"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.27024986367430026", "__start__": "00000000000000000000000000000002.0.8814623805549171", "loop_last_node": "00000000000000000000000000000003.0.27024986367430026", "branch:to:model": "00000000000000000000000000000003.0.27024986367430026", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}}, "channel_values": {"loop_last_node": "model"}, "channel_versions": {"messages": "00000000000000000000000000000004.0.5825704876651902", "__start__": "00000000000000000000000000000002.0.8814623805549171", "__pregel_tasks": "00000000000000000000000000000004.0.5825704876651902", "loop_last_node": "00000000000000000000000000000003.0.27024986367430026", "branch:to:model": "00000000000000000000000000000003.0.27024986367430026", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.5825704876651902"}, "updated_channels": ["__pregel_tasks", "messages"]}', '{"step": 2, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000002", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "counters_since_delta_snapshot": {"messages": [3, 4]}}'),
	('paid', '', '1f1e9565-da6f-6127-8003-60ac58710012', '1f1e9565-da59-66a2-8002-553cba1346c9', NULL, '{"v": 4, "id": "1f1e9565-da6f-6127-8003-60ac58710012", "ts": "2026-11-26T05:00:57.287695+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8814623805549171"}, "tools": {}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7098337034378428"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.27024986367430026", "__start__": "00000000000000000000000000000002.0.8814623805549171", "loop_last_node": "00000000000000000000000000000003.0.27024986367430026", "branch:to:model": "00000000000000000000000000000003.0.27024986367430026", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}}, "channel_values": {"loop_last_node": "model", "branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000005.0.18450934698225774", "__start__": "00000000000000000000000000000002.0.8814623805549171", "__pregel_tasks": "00000000000000000000000000000005.0.18450934698225774", "loop_last_node": "00000000000000000000000000000003.0.27024986367430026", "branch:to:model": "00000000000000000000000000000005.0.18450934698225774", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.5825704876651902"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 3, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000002", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "counters_since_delta_snapshot": {"messages": [4, 5]}}'),
	('paid', '', '1f1e9565-da7e-6b5f-8004-07311078265f', '1f1e9565-da6f-6127-8003-60ac58710012', NULL, '{"v": 4, "id": "1f1e9565-da7e-6b5f-8004-07311078265f", "ts": "2026-11-26T05:00:57.294100+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000005.0.18450934698225774"}, "tools": {}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7098337034378428"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.27024986367430026", "__start__": "00000000000000000000000000000002.0.8814623805549171", "loop_last_node": "00000000000000000000000000000003.0.27024986367430026", "branch:to:model": "00000000000000000000000000000003.0.27024986367430026", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.27024986367430026"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000006.0.6421904294609988", "__start__": "00000000000000000000000000000002.0.8814623805549171", "__pregel_tasks": "00000000000000000000000000000005.0.18450934698225774", "loop_last_node": "00000000000000000000000000000006.0.6421904294609988", "branch:to:model": "00000000000000000000000000000006.0.6421904294609988", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.5825704876651902"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 4, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000002", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "counters_since_delta_snapshot": {"messages": [5, 6]}}'),
	('held', '', '1f1e9565-d93e-6a84-8000-2d18b112c116', '1f1e9565-d93b-6ee9-bfff-931f43f3891e', NULL, '{"v": 4, "id": "1f1e9565-d93e-6a84-8000-2d18b112c116", "ts": "2026-11-26T05:00:57.163012+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.9007900965082805"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.6553269379525729", "__start__": "00000000000000000000000000000002.0.6553269379525729", "branch:to:model": "00000000000000000000000000000002.0.6553269379525729"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/00000001", "agent_factory_run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('running', '', '1f1e9565-db68-6d40-bfff-72c015df70e9', NULL, NULL, '{"v": 4, "id": "1f1e9565-db68-6d40-bfff-72c015df70e9", "ts": "2026-11-26T05:00:57.390003+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.1178254561495864"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "running/00000001", "agent_factory_run": "221e35a6d8b04b8d5e8561d4fbd711ce", "counters_since_delta_snapshot": {"messages": [0, 1]}}');

INSERT INTO public.service_audit VALUES
	(1, 1795669257.202809, 'acme', 'paid', '74032360740d8183', 'ann', 'approve', '{"type": "approve"}'),
	(2, 1795669257.318348, 'acme', 'review', '0742e74c400cdf53', 'ann', 'claim', NULL),
	(3, 1795669257.404168, 'acme', 'decided', '931bcd7a5e1d0421', 'ann', 'approve', '{"type": "approve"}');

INSERT INTO public.service_limits VALUES
	('acme', 1, NULL);

INSERT INTO public.service_runs VALUES
	(1, '0b3b86e45acdd7124ac55d9463741b64', 'done', 'acme', 'desk', 0, '{"kind": "message", "run": "0b3b86e45acdd7124ac55d9463741b64", "thread": "done", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceVBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUhlbGxvsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZKtkb25lOiBIZWxsb7Ntb2RlbF92YWxpZGF0ZV9qc29u", "context": null}', 'done/00000001', 1795669256.605622),
	(3, 'd1114450a33deb100ac6921e09e16e2a', 'review', 'acme', 'desk', 0, '{"kind": "message", "run": "d1114450a33deb100ac6921e09e16e2a", "thread": "review", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceZBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxMrFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSucmV2aWV3OiBQYXkgMTKzbW9kZWxfdmFsaWRhdGVfanNvbg==", "context": null}', 'review/00000001', 1795669256.871942),
	(5, 'eaa6bbf36ccb5bfdc29e1c7cd5a60dac', 'held', 'acme', 'desk', 0, '{"kind": "message", "run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "thread": "held", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxNLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSsaGVsZDogUGF5IDE0s21vZGVsX3ZhbGlkYXRlX2pzb24=", "context": null}', 'held/00000001', 1795669257.088374),
	(2, 'a48675fc13c5aa17f9abc87ffeac264b', 'paid', 'acme', 'desk', 0, '{"kind": "message", "run": "a48675fc13c5aa17f9abc87ffeac264b", "thread": "paid", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxMLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSscGFpZDogUGF5IDEws21vZGVsX3ZhbGlkYXRlX2pzb24=", "context": null}', 'paid/00000002', 1795669256.745926),
	(6, 'c3c1da0aa60f53ce4c2d9d9632174009', 'held', 'acme', 'desk', 0, '{"kind": "message", "run": "c3c1da0aa60f53ce4c2d9d9632174009", "thread": "held", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plRoYW5rc7FhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSsaGVsZDogVGhhbmtzs21vZGVsX3ZhbGlkYXRlX2pzb24=", "context": null}', NULL, 1795669257.315697),
	(7, '221e35a6d8b04b8d5e8561d4fbd711ce', 'running', 'acme', 'desk', 0, '{"kind": "message", "run": "221e35a6d8b04b8d5e8561d4fbd711ce", "thread": "running", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceYBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUJsb2NrsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK5ydW5uaW5nOiBCbG9ja7Ntb2RlbF92YWxpZGF0ZV9qc29u", "context": null}', 'running/00000001', 1795669257.320634),
	(8, '4cdabfe97bb7732f73b9270a56c4bd66', 'running', 'acme', 'desk', 0, '{"kind": "message", "run": "4cdabfe97bb7732f73b9270a56c4bd66", "thread": "running", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceYBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUFmdGVysWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK5ydW5uaW5nOiBBZnRlcrNtb2RlbF92YWxpZGF0ZV9qc29u", "context": null}', 'running/00000002', 1795669257.399671),
	(4, 'bea7c3f0e46f8b44894678991818393d', 'decided', 'acme', 'desk', 0, '{"kind": "message", "run": "bea7c3f0e46f8b44894678991818393d", "thread": "decided", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceaBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxM7FhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSvZGVjaWRlZDogUGF5IDEzs21vZGVsX3ZhbGlkYXRlX2pzb24=", "context": null}', 'decided/00000002', 1795669256.986603),
	(11, '4cef52baf730d1835f304b17b6e0c39e', 'now', 'acme', 'desk', 0, '{"kind": "message", "run": "4cef52baf730d1835f304b17b6e0c39e", "thread": "now", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceUBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUxhdGVysWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZKpub3c6IExhdGVys21vZGVsX3ZhbGlkYXRlX2pzb24=", "context": null}', 'now/00000001', 1795669257.425652),
	(9, '57609bbc99af8f9fe722535005e6fb0f', 'queued', 'acme', 'desk', 5, '{"kind": "message", "run": "57609bbc99af8f9fe722535005e6fb0f", "thread": "queued", "tenant": "acme", "agent": "desk", "priority": 5, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUZpcnN0sWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK1xdWV1ZWQ6IEZpcnN0s21vZGVsX3ZhbGlkYXRlX2pzb24=", "context": "{\"user\": \"ann\"}"}', 'queued/00000001', 1795669257.411396),
	(10, '8298688bb3017fdd396e4069c44aee6b', 'queued', 'acme', 'desk', 0, '{"kind": "message", "run": "8298688bb3017fdd396e4069c44aee6b", "thread": "queued", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceZBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plNlY29uZLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSucXVldWVkOiBTZWNvbmSzbW9kZWxfdmFsaWRhdGVfanNvbg==", "context": null}', 'queued/00000002', 1795669257.415118);

INSERT INTO public.service_threads VALUES
	('done', 'acme', 'desk', 'idle', 1, NULL, '0b3b86e45acdd7124ac55d9463741b64', 1, NULL, NULL, NULL, NULL, 1795669256.731837),
	('review', 'acme', 'desk', 'waiting', 1, NULL, 'd1114450a33deb100ac6921e09e16e2a', 1, NULL, NULL, NULL, NULL, 1795669256.963351),
	('held', 'acme', 'desk', 'waiting', 1, NULL, 'eaa6bbf36ccb5bfdc29e1c7cd5a60dac', 1, NULL, NULL, NULL, NULL, 1795669257.179806),
	('paid', 'acme', 'desk', 'idle', 2, NULL, 'a48675fc13c5aa17f9abc87ffeac264b', 2, NULL, NULL, NULL, NULL, 1795669257.297129),
	('running', 'acme', 'desk', 'running', 1, 'vm-20513-409150b6', '221e35a6d8b04b8d5e8561d4fbd711ce', 2, NULL, NULL, NULL, NULL, 1795669257.400282),
	('decided', 'acme', 'desk', 'queued', 1, NULL, 'bea7c3f0e46f8b44894678991818393d', 2, NULL, NULL, NULL, NULL, 1795669257.405634),
	('queued', 'acme', 'desk', 'queued', 0, NULL, NULL, 2, NULL, NULL, NULL, NULL, 1795669257.415715),
	('now', 'acme', 'desk', 'queued', 0, NULL, NULL, 1, NULL, NULL, NULL, NULL, 1795669257.426595);

INSERT INTO public.service_waits VALUES
	('17a48e4f71b8e726', 'held', 'acme', 'desk', 'eaa6bbf36ccb5bfdc29e1c7cd5a60dac', 'call-14', 'e6db3412406aa7a7ff243ba067602adc', 'pay', 'review', '{"euros": 14}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 14}"', 'approve,edit,reject,respond', 0, 1795669257.179505, NULL, 'reject', NULL, NULL, NULL, NULL, NULL, '1f1e9565-d955-6d38-8001-95322f4edcb8'),
	('74032360740d8183', 'paid', 'acme', 'desk', 'a48675fc13c5aa17f9abc87ffeac264b', 'call-10', '480d69700e5dbea2ba9e5601bfd3ea6c', 'pay', 'review', '{"euros": 10}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 10}"', 'approve,edit,reject,respond', 0, 1795669256.846269, NULL, 'reject', NULL, NULL, 1795669257.202108, 'ann', '{"type": "approve"}', '1f1e9565-d625-698c-8001-d6b8396e5e27'),
	('0742e74c400cdf53', 'review', 'acme', 'desk', 'd1114450a33deb100ac6921e09e16e2a', 'call-12', '73dd56f66f855087c3e87db27c696f67', 'pay', 'review', '{"euros": 12}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 12}"', 'approve,edit,reject,respond', 0, 1795669256.963009, NULL, 'reject', 'ann', 1795670157.317969, NULL, NULL, NULL, '1f1e9565-d73c-626c-8001-a3252c895ff6'),
	('931bcd7a5e1d0421', 'decided', 'acme', 'desk', 'bea7c3f0e46f8b44894678991818393d', 'call-13', '89fd24121663bb8a2d046688a7864a4b', 'pay', 'review', '{"euros": 13}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 13}"', 'approve,edit,reject,respond', 0, 1795669257.072149, NULL, 'reject', NULL, NULL, 1795669257.403569, 'ann', '{"type": "approve"}', '1f1e9565-d84c-6b96-8001-3d0dbc90f991');

INSERT INTO public.service_workers VALUES
	('vm-20513-409150b6', 1795669257.590641, false, '{"host": "vm", "process": 20513, "slots": 1}');

SELECT pg_catalog.setval('public.service_audit_id_seq', 3, true);

SELECT pg_catalog.setval('public.service_events_id_seq', 7, true);

SELECT pg_catalog.setval('public.service_runs_seq_seq', 11, true);

ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_pkey PRIMARY KEY (version_id);

ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_version_name_key UNIQUE (version_name);

ALTER TABLE ONLY dbos.dbos_migrations
    ADD CONSTRAINT dbos_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY dbos.event_dispatch_kv
    ADD CONSTRAINT event_dispatch_kv_pkey PRIMARY KEY (service_name, workflow_fn_name, key);

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (message_uuid);

ALTER TABLE ONLY dbos.operation_outputs
    ADD CONSTRAINT operation_outputs_pkey PRIMARY KEY (workflow_uuid, function_id);

ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);

ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue_id);

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (workflow_uuid, key, "offset");

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_pkey PRIMARY KEY (workflow_uuid, function_id, key);

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_pkey PRIMARY KEY (workflow_uuid, key);

ALTER TABLE ONLY dbos.workflow_input
    ADD CONSTRAINT workflow_input_pkey PRIMARY KEY (workflow_uuid);

ALTER TABLE ONLY dbos.workflow_output
    ADD CONSTRAINT workflow_output_pkey PRIMARY KEY (workflow_uuid);

ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_schedule_name_key UNIQUE (schedule_name);

ALTER TABLE ONLY dbos.workflow_status
    ADD CONSTRAINT workflow_status_pkey PRIMARY KEY (workflow_uuid);

ALTER TABLE ONLY public.checkpoint_blobs
    ADD CONSTRAINT checkpoint_blobs_pkey PRIMARY KEY (thread_id, checkpoint_ns, channel, version);

ALTER TABLE ONLY public.checkpoint_migrations
    ADD CONSTRAINT checkpoint_migrations_pkey PRIMARY KEY (v);

ALTER TABLE ONLY public.checkpoint_writes
    ADD CONSTRAINT checkpoint_writes_pkey PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx);

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id);

ALTER TABLE ONLY public.service_audit
    ADD CONSTRAINT service_audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_effects
    ADD CONSTRAINT service_effects_pkey PRIMARY KEY (call_id);

ALTER TABLE ONLY public.service_events
    ADD CONSTRAINT service_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_ledger
    ADD CONSTRAINT service_ledger_pkey PRIMARY KEY (scope, amount);

ALTER TABLE ONLY public.service_limits
    ADD CONSTRAINT service_limits_pkey PRIMARY KEY (tenant);

ALTER TABLE ONLY public.service_reservations
    ADD CONSTRAINT service_reservations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_runs
    ADD CONSTRAINT service_runs_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY public.service_runs
    ADD CONSTRAINT service_runs_run_id_key UNIQUE (run_id);

ALTER TABLE ONLY public.service_threads
    ADD CONSTRAINT service_threads_pkey PRIMARY KEY (thread_id);

ALTER TABLE ONLY public.service_waits
    ADD CONSTRAINT service_waits_pkey PRIMARY KEY (wait_id);

ALTER TABLE ONLY public.service_workers
    ADD CONSTRAINT service_workers_pkey PRIMARY KEY (id);

CREATE INDEX idx_application_versions_owner_timestamp ON dbos.application_versions USING btree (application_name, version_timestamp DESC);

CREATE INDEX idx_application_versions_timestamp ON dbos.application_versions USING btree (version_timestamp DESC);

CREATE INDEX idx_operation_outputs_completed_at_function_name_v2 ON dbos.operation_outputs USING btree (completed_at_epoch_ms, function_name) INCLUDE (application_name);

CREATE INDEX idx_operation_outputs_retention ON dbos.operation_outputs USING btree (retention_timestamp);

CREATE INDEX idx_workflow_input_retention ON dbos.workflow_input USING btree (retention_timestamp);

CREATE INDEX idx_workflow_output_retention ON dbos.workflow_output USING btree (retention_timestamp);

CREATE INDEX idx_workflow_status_attributes ON dbos.workflow_status USING gin (attributes) WHERE (attributes IS NOT NULL);

CREATE INDEX idx_workflow_status_completed_at ON dbos.workflow_status USING btree (completed_at) WHERE (completed_at IS NOT NULL);

CREATE INDEX idx_workflow_status_deadline ON dbos.workflow_status USING btree (workflow_deadline_epoch_ms) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text, 'DELAYED'::text])) AND (workflow_deadline_epoch_ms IS NOT NULL));

CREATE INDEX idx_workflow_status_delayed ON dbos.workflow_status USING btree (delay_until_epoch_ms) WHERE (status = 'DELAYED'::text);

CREATE INDEX idx_workflow_status_failed ON dbos.workflow_status USING btree (status, created_at) WHERE (status = ANY (ARRAY['ERROR'::text, 'CANCELLED'::text, 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'::text]));

CREATE INDEX idx_workflow_status_forked_from ON dbos.workflow_status USING btree (forked_from) WHERE (forked_from IS NOT NULL);

CREATE INDEX idx_workflow_status_in_flight_v2 ON dbos.workflow_status USING btree (queue_name, status, priority, created_at) INCLUDE (application_name) WHERE (status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text]));

CREATE INDEX idx_workflow_status_parent_workflow_id ON dbos.workflow_status USING btree (parent_workflow_id) WHERE (parent_workflow_id IS NOT NULL);

CREATE INDEX idx_workflow_status_partition_dequeue_v3 ON dbos.workflow_status USING btree (queue_name, status, queue_partition_key, priority, created_at, workflow_uuid) INCLUDE (application_name) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text])) AND (queue_partition_key IS NOT NULL));

CREATE INDEX idx_workflow_status_pending ON dbos.workflow_status USING btree (created_at) WHERE (status = 'PENDING'::text);

CREATE INDEX idx_workflow_status_rate_limited ON dbos.workflow_status USING btree (queue_name, started_at_epoch_ms) WHERE (rate_limited = true);

CREATE INDEX idx_workflow_status_schedule_name ON dbos.workflow_status USING btree (schedule_name) WHERE (schedule_name IS NOT NULL);

CREATE INDEX idx_workflow_status_started_at ON dbos.workflow_status USING btree (started_at_epoch_ms) WHERE (started_at_epoch_ms IS NOT NULL);

CREATE INDEX idx_workflow_topic ON dbos.notifications USING btree (destination_uuid, topic);

CREATE UNIQUE INDEX uq_application_versions_owner_version ON dbos.application_versions USING btree (application_name, version_name) WHERE (application_name IS NOT NULL);

CREATE UNIQUE INDEX uq_application_versions_unclaimed_version ON dbos.application_versions USING btree (version_name) WHERE (application_name IS NULL);

CREATE UNIQUE INDEX uq_workflow_status_dedup_id ON dbos.workflow_status USING btree (queue_name, deduplication_id) WHERE (deduplication_id IS NOT NULL);

CREATE INDEX workflow_status_created_at_index ON dbos.workflow_status USING btree (created_at);

CREATE INDEX checkpoint_blobs_thread_id_idx ON public.checkpoint_blobs USING btree (thread_id);

CREATE INDEX checkpoint_writes_thread_id_idx ON public.checkpoint_writes USING btree (thread_id);

CREATE INDEX checkpoints_thread_id_idx ON public.checkpoints USING btree (thread_id);

CREATE INDEX ix_service_audit_thread_id ON public.service_audit USING btree (thread_id);

CREATE INDEX ix_service_events_at ON public.service_events USING btree (at);

CREATE INDEX ix_service_reservations_expires ON public.service_reservations USING btree (expires);

CREATE INDEX ix_service_reservations_scope ON public.service_reservations USING btree (scope);

CREATE INDEX ix_service_runs_thread_id ON public.service_runs USING btree (thread_id);

CREATE INDEX service_events_job ON public.service_events USING btree (job, id);

CREATE INDEX service_threads_status ON public.service_threads USING btree (status);

CREATE INDEX service_threads_tenant ON public.service_threads USING btree (tenant, updated_at);

CREATE INDEX service_waits_deadline ON public.service_waits USING btree (deadline) WHERE ((decided_at IS NULL) AND (deadline IS NOT NULL));

CREATE INDEX service_waits_open ON public.service_waits USING btree (tenant, priority DESC, created_at) WHERE (decided_at IS NULL);

CREATE INDEX service_waits_thread ON public.service_waits USING btree (thread_id);

CREATE TRIGGER dbos_notifications_trigger AFTER INSERT ON dbos.notifications FOR EACH ROW EXECUTE FUNCTION dbos.notifications_function();

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_destination_uuid_fkey FOREIGN KEY (destination_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;
