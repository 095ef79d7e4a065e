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

CREATE FUNCTION public.service_audit_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'service_audit is append-only'; END $$;

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
    detail text,
    hash character varying NOT NULL
);

CREATE TABLE public.service_effects (
    number bigint NOT NULL,
    key character varying NOT NULL,
    run character varying NOT NULL,
    tool character varying NOT NULL,
    args_data bytea NOT NULL,
    attempt character varying NOT NULL,
    started_at character varying NOT NULL,
    result_data bytea
);

CREATE SEQUENCE public.service_effects_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.service_effects_number_seq OWNED BY public.service_effects.number;

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
    per character varying NOT NULL,
    ends double precision NOT NULL,
    usd double precision DEFAULT '0'::double precision NOT NULL,
    input_tokens bigint DEFAULT '0'::bigint NOT NULL,
    output_tokens bigint DEFAULT '0'::bigint NOT NULL,
    seconds double precision DEFAULT '0'::double precision NOT NULL,
    turns bigint DEFAULT '0'::bigint NOT NULL,
    tool_calls bigint DEFAULT '0'::bigint NOT NULL,
    usd_reserved double precision DEFAULT '0'::double precision NOT NULL,
    input_tokens_reserved bigint DEFAULT '0'::bigint NOT NULL,
    output_tokens_reserved bigint DEFAULT '0'::bigint NOT NULL,
    seconds_reserved double precision DEFAULT '0'::double precision NOT NULL,
    turns_reserved bigint DEFAULT '0'::bigint NOT NULL,
    tool_calls_reserved bigint DEFAULT '0'::bigint NOT NULL,
    usd_raised double precision DEFAULT '0'::double precision NOT NULL,
    input_tokens_raised bigint DEFAULT '0'::bigint NOT NULL,
    output_tokens_raised bigint DEFAULT '0'::bigint NOT NULL,
    seconds_raised double precision DEFAULT '0'::double precision NOT NULL,
    turns_raised bigint DEFAULT '0'::bigint NOT NULL,
    tool_calls_raised bigint DEFAULT '0'::bigint NOT NULL,
    total_tokens_raised bigint DEFAULT '0'::bigint NOT NULL
);

CREATE TABLE public.service_ledger_breakdown (
    scope character varying NOT NULL,
    per character varying NOT NULL,
    agent character varying NOT NULL,
    part character varying NOT NULL,
    usd double precision DEFAULT '0'::double precision NOT NULL,
    input_tokens bigint DEFAULT '0'::bigint NOT NULL,
    output_tokens bigint DEFAULT '0'::bigint NOT NULL,
    seconds double precision DEFAULT '0'::double precision NOT NULL,
    turns bigint DEFAULT '0'::bigint NOT NULL,
    tool_calls bigint DEFAULT '0'::bigint NOT NULL
);

CREATE TABLE public.service_limits (
    tenant character varying NOT NULL,
    concurrency integer,
    per_minute integer
);

CREATE TABLE public.service_reservations (
    id character varying NOT NULL,
    scope character varying NOT NULL,
    per character varying NOT NULL,
    owner character varying,
    expires double precision NOT NULL,
    usd double precision DEFAULT '0'::double precision NOT NULL,
    input_tokens bigint DEFAULT '0'::bigint NOT NULL,
    output_tokens bigint DEFAULT '0'::bigint NOT NULL,
    seconds double precision DEFAULT '0'::double precision NOT NULL,
    turns bigint DEFAULT '0'::bigint NOT NULL,
    tool_calls bigint DEFAULT '0'::bigint NOT NULL
);

CREATE TABLE public.service_runs (
    seq bigint NOT NULL,
    run_id character varying NOT NULL,
    thread_id character varying NOT NULL,
    tenant character varying NOT NULL,
    agent character varying NOT NULL,
    priority integer NOT NULL,
    payload text NOT NULL,
    status character varying NOT NULL,
    job character varying,
    checkpoint_id character varying,
    metadata json NOT NULL,
    error text,
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
    metadata json NOT NULL,
    error text,
    created_at double precision NOT NULL,
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

ALTER TABLE ONLY public.service_effects ALTER COLUMN number SET DEFAULT nextval('public.service_effects_number_seq'::regclass);

ALTER TABLE ONLY public.service_events ALTER COLUMN id SET DEFAULT nextval('public.service_events_id_seq'::regclass);

ALTER TABLE ONLY public.service_runs ALTER COLUMN seq SET DEFAULT nextval('public.service_runs_seq_seq'::regclass);

INSERT INTO dbos.application_versions VALUES
	('66e034c4-559d-47fc-936a-e9519e2d31e0', '1', 1795669260193, 1795669260193, 'agent_factory');

INSERT INTO dbos.dbos_migrations VALUES
	(125);

INSERT INTO dbos.queues VALUES
	('f6baabc2-7ba6-4bc4-9ae4-fc4236939fed', 'agent_factory:acme', 1, NULL, NULL, NULL, true, false, 0.1, 1795669260181, 1795669260180, 'agent_factory', NULL, NULL, NULL, NULL),
	('d6a136af-0f76-4223-ab77-d486777b826c', 'agent_factory', NULL, 1, NULL, NULL, true, false, 0.1, 1795669260188, 1795669260187, 'agent_factory', NULL, NULL, NULL, NULL);

INSERT INTO dbos.workflow_input VALUES
	('done/00000001', 'gASV9gEAAAAAAAB9lCiMBGFyZ3OUWNcBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiMGIzYjg2ZTQ1YWNkZDcxMjRhYzU1ZDk0NjM3NDFiNjQiLCAidGhyZWFkIjogImRvbmUiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VWQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcFVobGJHeHZzV0ZrWkdsMGFXOXVZV3hmYTNkaGNtZHpnTEZ5WlhOd2IyNXpaVjl0WlhSaFpHRjBZWUNrZEhsd1phVm9kVzFoYnFSdVlXMWx3S0pwWkt0a2IyNWxPaUJJWld4c2I3TnRiMlJsYkY5MllXeHBaR0YwWlY5cWMyOXUiLCAiY2hlY2twb2ludCI6IG51bGwsICJjb250ZXh0IjogbnVsbCwgImNvbmZpZyI6IHsiY29uZmlndXJhYmxlIjoge319LCAic3RyZWFtIjogbnVsbCwgInRyYWNlIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669260211),
	('paid/00000001', 'gASV+gEAAAAAAAB9lCiMBGFyZ3OUWNsBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiYTQ4Njc1ZmMxM2M1YWExN2Y5YWJjODdmZmVhYzI2NGIiLCAidGhyZWFkIjogInBhaWQiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VYQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcGxCaGVTQXhNTEZoWkdScGRHbHZibUZzWDJ0M1lYSm5jNEN4Y21WemNHOXVjMlZmYldWMFlXUmhkR0dBcEhSNWNHV2xhSFZ0WVc2a2JtRnRaY0NpYVdTc2NHRnBaRG9nVUdGNUlERXdzMjF2WkdWc1gzWmhiR2xrWVhSbFgycHpiMjQ9IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJ0cmFjZSI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669260389),
	('review/00000001', 'gASVAAIAAAAAAAB9lCiMBGFyZ3OUWOEBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZDExMTQ0NTBhMzNkZWIxMDBhYzY5MjFlMDllMTZlMmEiLCAidGhyZWFkIjogInJldmlldyIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVpCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwbEJoZVNBeE1yRmhaR1JwZEdsdmJtRnNYMnQzWVhKbmM0Q3hjbVZ6Y0c5dWMyVmZiV1YwWVdSaGRHR0FwSFI1Y0dXbGFIVnRZVzZrYm1GdFpjQ2lhV1N1Y21WMmFXVjNPaUJRWVhrZ01US3piVzlrWld4ZmRtRnNhV1JoZEdWZmFuTnZiZz09IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJ0cmFjZSI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669260492),
	('decided/00000001', 'gASVAQIAAAAAAAB9lCiMBGFyZ3OUWOIBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiYmVhN2MzZjBlNDZmOGI0NDg5NDY3ODk5MTgxODM5M2QiLCAidGhyZWFkIjogImRlY2lkZWQiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VhQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcGxCaGVTQXhNN0ZoWkdScGRHbHZibUZzWDJ0M1lYSm5jNEN4Y21WemNHOXVjMlZmYldWMFlXUmhkR0dBcEhSNWNHV2xhSFZ0WVc2a2JtRnRaY0NpYVdTdlpHVmphV1JsWkRvZ1VHRjVJREV6czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjaGVja3BvaW50IjogbnVsbCwgImNvbnRleHQiOiBudWxsLCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAidHJhY2UiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669260615),
	('held/00000001', 'gASV+gEAAAAAAAB9lCiMBGFyZ3OUWNsBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZWFhNmJiZjM2Y2NiNWJmZGMyOWUxYzdjZDVhNjBkYWMiLCAidGhyZWFkIjogImhlbGQiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VYQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcGxCaGVTQXhOTEZoWkdScGRHbHZibUZzWDJ0M1lYSm5jNEN4Y21WemNHOXVjMlZmYldWMFlXUmhkR0dBcEhSNWNHV2xhSFZ0WVc2a2JtRnRaY0NpYVdTc2FHVnNaRG9nVUdGNUlERTBzMjF2WkdWc1gzWmhiR2xrWVhSbFgycHpiMjQ9IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJ0cmFjZSI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669260713),
	('paid/00000002', 'gASVBgEAAAAAAAB9lCiMBGFyZ3OUjOp7ImtpbmQiOiAiZGVjaXNpb24iLCAicnVuIjogImE0ODY3NWZjMTNjNWFhMTdmOWFiYzg3ZmZlYWMyNjRiIiwgInRocmVhZCI6ICJwYWlkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiZGVjaXNpb25zIjogeyI2ZjZmZmNhODVhMThmOTExYmFmNGIyZDhmZDI4NTIyYiI6IHsidHlwZSI6ICJhcHByb3ZlIn19LCAic3RyZWFtIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669260816),
	('running/00000001', 'gASV/QEAAAAAAAB9lCiMBGFyZ3OUWN4BAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiMjIxZTM1YTZkOGIwNGI4ZDVlODU2MWQ0ZmJkNzExY2UiLCAidGhyZWFkIjogInJ1bm5pbmciLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VZQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcFVKc2IyTnJzV0ZrWkdsMGFXOXVZV3hmYTNkaGNtZHpnTEZ5WlhOd2IyNXpaVjl0WlhSaFpHRjBZWUNrZEhsd1phVm9kVzFoYnFSdVlXMWx3S0pwWks1eWRXNXVhVzVuT2lCQ2JHOWphN050YjJSbGJGOTJZV3hwWkdGMFpWOXFjMjl1IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJ0cmFjZSI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669260944),
	('decided/00000002', 'gASVCQEAAAAAAAB9lCiMBGFyZ3OUjO17ImtpbmQiOiAiZGVjaXNpb24iLCAicnVuIjogImJlYTdjM2YwZTQ2ZjhiNDQ4OTQ2Nzg5OTE4MTgzOTNkIiwgInRocmVhZCI6ICJkZWNpZGVkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiZGVjaXNpb25zIjogeyJkNDk2YmEzZWIxZDFlMGY3MWU1NzUzZGRlN2FiNjJkZCI6IHsidHlwZSI6ICJhcHByb3ZlIn19LCAic3RyZWFtIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669261007),
	('queued/00000001', 'gASVBwIAAAAAAAB9lCiMBGFyZ3OUWOgBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNTc2MDliYmM5OWFmOGY5ZmU3MjI1MzUwMDVlNmZiMGYiLCAidGhyZWFkIjogInF1ZXVlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogNSwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVhCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwVVpwY25OMHNXRmtaR2wwYVc5dVlXeGZhM2RoY21kemdMRnlaWE53YjI1elpWOXRaWFJoWkdGMFlZQ2tkSGx3WmFWb2RXMWhicVJ1WVcxbHdLSnBaSzF4ZFdWMVpXUTZJRVpwY25OMHMyMXZaR1ZzWDNaaGJHbGtZWFJsWDJwemIyND0iLCAiY2hlY2twb2ludCI6IG51bGwsICJjb250ZXh0IjogeyJ1c2VyIjogImFubiJ9LCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAidHJhY2UiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669261012),
	('now/00000001', 'gASV9QEAAAAAAAB9lCiMBGFyZ3OUWNYBAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNGNlZjUyYmFmNzMwZDE4MzVmMzA0YjE3YjZlMGMzOWUiLCAidGhyZWFkIjogIm5vdyIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVVCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwVXhoZEdWeXNXRmtaR2wwYVc5dVlXeGZhM2RoY21kemdMRnlaWE53YjI1elpWOXRaWFJoWkdGMFlZQ2tkSGx3WmFWb2RXMWhicVJ1WVcxbHdLSnBaS3B1YjNjNklFeGhkR1Z5czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjaGVja3BvaW50IjogbnVsbCwgImNvbnRleHQiOiBudWxsLCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAidHJhY2UiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669261017);

INSERT INTO dbos.workflow_output VALUES
	('done/00000001', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZjdkMS02NTM3LTgwMDEtZDdjMWZjZGY3YTRklHUu', NULL, 1795669260378),
	('paid/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZjhkNi02NGZmLTgwMDEtZTA5Y2RlZTVkZWIxlHUu', NULL, 1795669260488),
	('review/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZjlkYy02OWNlLTgwMDEtMzRlYzYyMmMyYTZjlHUu', NULL, 1795669260597),
	('decided/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZmFkZi02NDAxLTgwMDEtZmNmNGIzN2E1MGY4lHUu', NULL, 1795669260700),
	('held/00000001', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZmJkZS02ZTNiLTgwMDEtMmJlMjBlODQ3ZjQ3lHUu', NULL, 1795669260807),
	('paid/00000002', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjUtZmNmYi02ZWI5LTgwMDQtNzBhOGE2OWYyNjhjlHUu', NULL, 1795669260915);

INSERT INTO dbos.workflow_schedules VALUES
	('f45cd550-6a63-4034-829b-28d61453a0bd', 'nightly', 'agent_factory.run_schedule', NULL, '0 3 * * *', 'ACTIVE', 'gASVaAAAAAAAAACMZHsiYWdlbnQiOiAiZGVzayIsICJtZXNzYWdlIjogIkdvb2QgbmlnaHQiLCAidGhyZWFkIjogIm5pZ2h0bHkiLCAidGVuYW50IjogImFjbWUiLCAibmFtZSI6ICJuaWdodGx5In2ULg==', NULL, false, 'Europe/Berlin', NULL, 'agent_factory');

INSERT INTO dbos.workflow_status VALUES
	('done/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260211, 1795669260378, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260330, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669260378, 'null', NULL, NULL, false, 'agent_factory', '124e84d1-2f87-4bf8-8706-380e41ae98b3'),
	('paid/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260389, 1795669260488, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260446, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669260488, 'null', NULL, NULL, false, 'agent_factory', '5b08fa50-71d2-43bd-8577-00b2792e5121'),
	('review/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260492, 1795669260597, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260557, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669260597, 'null', NULL, NULL, false, 'agent_factory', '4146e594-e35e-418a-98a9-f92fa525c27f'),
	('decided/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260615, 1795669260700, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260660, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669260700, 'null', NULL, NULL, false, 'agent_factory', '8e00f1a4-ec05-490b-821d-fb0d04191885'),
	('held/00000001', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260713, 1795669260807, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260772, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669260807, 'null', NULL, NULL, false, 'agent_factory', 'd274fe28-d6f1-4c6d-829a-9ab2abc41653'),
	('paid/00000002', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260816, 1795669260915, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260881, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669260915, 'null', NULL, NULL, false, 'agent_factory', 'c60bb90b-5bf7-4c7a-baba-f9b209b1661f'),
	('running/00000001', 'PENDING', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-20778-67a0427a', 1795669260944, 1795669260991, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669260991, NULL, 1001, NULL, NULL, '0faf00b8-d3cc-489c-96f2-180202af8867', NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '2916cdb2-2cad-4223-a8cb-19031db93428'),
	('decided/00000002', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669261007, 1795669261007, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '12e323c4-dba5-4f6a-ac68-c4ae5937c0aa'),
	('queued/00000001', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669261012, 1795669261012, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 996, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', 'c47ca448-85d3-4565-80ad-5cee9d16936b'),
	('now/00000001', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669261017, 1795669261017, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '5237ebf0-3260-4388-9cdf-cf7d00d55dba');

INSERT INTO public.checkpoint_blobs VALUES
	('done', '', '__start__', '00000000000000000000000000000001.0.8175019358461908', 'msgpack', '\x81a86d6573736167657391c7950594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ab646f6e653a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e'),
	('paid', '', '__start__', '00000000000000000000000000000001.0.744634944380679', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac706169643a20506179203130b36d6f64656c5f76616c69646174655f6a736f6e'),
	('review', '', '__start__', '00000000000000000000000000000001.0.8450025974097174', 'msgpack', '\x81a86d6573736167657391c7990594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203132b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae7265766965773a20506179203132b36d6f64656c5f76616c69646174655f6a736f6e'),
	('decided', '', '__start__', '00000000000000000000000000000001.0.6557786527717413', 'msgpack', '\x81a86d6573736167657391c79a0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203133b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964af646563696465643a20506179203133b36d6f64656c5f76616c69646174655f6a736f6e'),
	('held', '', '__start__', '00000000000000000000000000000001.0.941046241360073', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203134b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac68656c643a20506179203134b36d6f64656c5f76616c69646174655f6a736f6e'),
	('paid', '', '__pregel_tasks', '00000000000000000000000000000004.0.5721791470241748', 'msgpack', '\x91c74f0193af6c616e6767726170682e7479706573a453656e6492a5746f6f6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6c'),
	('paid', '', '__pregel_tasks', '00000000000000000000000000000005.0.44178509260122956', 'msgpack', '\x90'),
	('running', '', '__start__', '00000000000000000000000000000001.0.61725611087021', 'msgpack', '\x81a86d6573736167657391c7980594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a5426c6f636bb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae72756e6e696e673a20426c6f636bb36d6f64656c5f76616c69646174655f6a736f6e');

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
	('done', '', '1f1e9565-f7b5-611b-bfff-4e3d24048e09', '147848ca-13e9-f2a5-10d6-11ec313afcdd', 0, 'messages', 'msgpack', '\x91c7950594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ab646f6e653a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('done', '', '1f1e9565-f7b5-611b-bfff-4e3d24048e09', '147848ca-13e9-f2a5-10d6-11ec313afcdd', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('done', '', '1f1e9565-f7b8-6e6a-8000-220749f05d67', '48ea855e-603f-8b8b-b57a-127c5ce42b81', 0, 'messages', 'msgpack', '\x91c7e00594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ab446f6e653a2048656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d66623237396539332d353938382d346538662d383732312d653666356266616264366561aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('done', '', '1f1e9565-f7b8-6e6a-8000-220749f05d67', '48ea855e-603f-8b8b-b57a-127c5ce42b81', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('done', '', '1f1e9565-f7b8-6e6a-8000-220749f05d67', '48ea855e-603f-8b8b-b57a-127c5ce42b81', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9565-f8aa-662f-bfff-85ac7538df0f', '5bf461b9-10e5-02e1-b9e5-8d002bfa4b6a', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac706169643a20506179203130b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9565-f8aa-662f-bfff-85ac7538df0f', '5bf461b9-10e5-02e1-b9e5-8d002bfa4b6a', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9565-f8ae-6bd5-8000-c5b5b89c6e03', 'e252cbcb-3dfe-acdf-4265-d9763c3e760c', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d38653366376465642d623565332d343832612d383436642d323035626432343738303437aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('paid', '', '1f1e9565-f8ae-6bd5-8000-c5b5b89c6e03', 'e252cbcb-3dfe-acdf-4265-d9763c3e760c', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('paid', '', '1f1e9565-f8ae-6bd5-8000-c5b5b89c6e03', 'e252cbcb-3dfe-acdf-4265-d9763c3e760c', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1', 'c8afadc2-31bd-632f-498a-df74ec422d6f', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730aab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031307dac746f6f6c5f63616c6c5f6964a763616c6c2d3130ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206466396366313830333363616133666335376136663961343336636634663032af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('review', '', '1f1e9565-f9bf-6482-bfff-c4c9e95a7b8c', 'c9cdc1ef-0a15-5ef5-788a-63a9f0ee8ffe', 0, 'messages', 'msgpack', '\x91c7990594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203132b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae7265766965773a20506179203132b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('review', '', '1f1e9565-f9bf-6482-bfff-c4c9e95a7b8c', 'c9cdc1ef-0a15-5ef5-788a-63a9f0ee8ffe', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('review', '', '1f1e9565-f9c2-6271-8000-29e3c9ee2784', 'c45a42f5-5a8e-76c6-a943-45824e82c8f7', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d38366235633266362d346438652d346636642d623331312d376666346233323438663465aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730ca26964a763616c6c2d3132a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('review', '', '1f1e9565-f9c2-6271-8000-29e3c9ee2784', 'c45a42f5-5a8e-76c6-a943-45824e82c8f7', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('review', '', '1f1e9565-f9c2-6271-8000-29e3c9ee2784', 'c45a42f5-5a8e-76c6-a943-45824e82c8f7', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('review', '', '1f1e9565-f9dc-69ce-8001-34ec622c2a6c', '05db138f-35b4-66d3-878f-a3ac21880cdb', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730cab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031327dac746f6f6c5f63616c6c5f6964a763616c6c2d3132ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206235333633663762313833303661653539373231383538323735633231333331af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('decided', '', '1f1e9565-fabd-6929-bfff-2c1b00164f21', 'a19a0f63-4cad-2fa9-782e-e847d15ce2f7', 0, 'messages', 'msgpack', '\x91c79a0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203133b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964af646563696465643a20506179203133b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('decided', '', '1f1e9565-fabd-6929-bfff-2c1b00164f21', 'a19a0f63-4cad-2fa9-782e-e847d15ce2f7', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('decided', '', '1f1e9565-fac2-6ab3-8000-599765a05eb0', 'd9231b84-308b-a267-6f23-4e56643199ca', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d64623430633534322d383035392d343538342d383464662d613265653332666435616566aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730da26964a763616c6c2d3133a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('decided', '', '1f1e9565-fac2-6ab3-8000-599765a05eb0', 'd9231b84-308b-a267-6f23-4e56643199ca', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('decided', '', '1f1e9565-fac2-6ab3-8000-599765a05eb0', 'd9231b84-308b-a267-6f23-4e56643199ca', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('held', '', '1f1e9565-fbc5-6240-bfff-67afce8ead7c', '0af0123a-4d8c-a885-1fb5-50105470f45f', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203134b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac68656c643a20506179203134b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('held', '', '1f1e9565-fbc5-6240-bfff-67afce8ead7c', '0af0123a-4d8c-a885-1fb5-50105470f45f', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1', 'c8afadc2-31bd-632f-498a-df74ec422d6f', -4, '__resume__', 'msgpack', '\x9181a96465636973696f6e739181a474797065a7617070726f7665', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('decided', '', '1f1e9565-fadf-6401-8001-fcf4b37a50f8', '95d21495-7033-933f-c14f-69b1a8ef6f75', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730dab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031337dac746f6f6c5f63616c6c5f6964a763616c6c2d3133ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9203236383038383337356338353432326433616463623966623332633933336138af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('held', '', '1f1e9565-fbc9-6726-8000-8c9ac27ce673', '097cdcd8-609a-9018-1de9-737507c52058', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d39613365663932302d663064352d343330302d613030382d396638616231333038303964aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730ea26964a763616c6c2d3134a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('held', '', '1f1e9565-fbc9-6726-8000-8c9ac27ce673', '097cdcd8-609a-9018-1de9-737507c52058', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('held', '', '1f1e9565-fbc9-6726-8000-8c9ac27ce673', '097cdcd8-609a-9018-1de9-737507c52058', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('running', '', '1f1e9565-fdd8-6848-bfff-70a69fea0f76', 'a5d00d52-707a-e176-e55a-7eda04a62278', 0, 'messages', 'msgpack', '\x91c7980594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a5426c6f636bb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae72756e6e696e673a20426c6f636bb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('running', '', '1f1e9565-fdd8-6848-bfff-70a69fea0f76', 'a5d00d52-707a-e176-e55a-7eda04a62278', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('held', '', '1f1e9565-fbde-6e3b-8001-2be20e847f47', '5ef7a7d0-a4f3-4203-2692-44763d8d2200', -3, '__interrupt__', 'msgpack', '\x91c808220293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739184a46e616d65a3706179a46172677381a56575726f730eab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031347dac746f6f6c5f63616c6c5f6964a763616c6c2d3134ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206337343938366339613437333938353433393431396338643332626565633934af726573706f6e73655f736368656d6183a5246465667386a6416374696f6e85ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e85ab6465736372697074696f6eb652756e207468652063616c6c2061732069742069732eaa70726f7065727469657381a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e85ab6465736372697074696f6ed96b52756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732eaa70726f7065727469657382a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e85ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374af526573706f6e644465636973696f6e85ab6465736372697074696f6ed94d416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c2eaa70726f7065727469657382a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a57469746c65a74d657373616765a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1', 'c8afadc2-31bd-632f-498a-df74ec422d6f', 1, 'messages', 'msgpack', '\x91c801380594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746181ae72657669657765645f63616c6c7381b848756d616e496e5468654c6f6f704d6964646c657761726591a763616c6c2d3130a474797065a26169a46e616d65c0a26964d92872756e2d38653366376465642d623565332d343832612d383436642d323035626432343738303437aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1', 'c8afadc2-31bd-632f-498a-df74ec422d6f', 2, '__pregel_tasks', 'msgpack', '\xc74f0193af6c616e6767726170682e7479706573a453656e6492a5746f6f6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6c', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9565-fcde-6b36-8002-e7aca31b0f10', '7d755803-e40f-0341-4905-dc4b1380cd15', 0, 'messages', 'msgpack', '\x91c7e00594bc6c616e67636861696e5f636f72652e6d657373616765732e746f6f6cab546f6f6c4d65737361676589a7636f6e74656e74a8506169642031302eb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a4746f6f6ca46e616d65a3706179a26964d92436323334653139352d656166302d343539622d396539312d336335366134303530376534ac746f6f6c5f63616c6c5f6964a763616c6c2d3130a86172746966616374c0a6737461747573a773756363657373b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_push, 0000000000, 0000000000'),
	('paid', '', '1f1e9565-fcde-6b36-8002-e7aca31b0f10', '7d755803-e40f-0341-4905-dc4b1380cd15', 1, 'branch:to:model', 'null', '\x', '~__pregel_push, 0000000000, 0000000000'),
	('paid', '', '1f1e9565-fcf1-605f-8003-8b13c02a4769', '34e877d7-4f8e-da8f-c1af-93eb437ff98f', 0, 'messages', 'msgpack', '\x91c7e10594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ac446f6e653a20506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d34393634303766372d623035312d343165312d386265342d346437313833646361663435aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('paid', '', '1f1e9565-fcf1-605f-8003-8b13c02a4769', '34e877d7-4f8e-da8f-c1af-93eb437ff98f', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('paid', '', '1f1e9565-fcf1-605f-8003-8b13c02a4769', '34e877d7-4f8e-da8f-c1af-93eb437ff98f', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', '');

INSERT INTO public.checkpoints VALUES
	('done', '', '1f1e9565-f7b5-611b-bfff-4e3d24048e09', NULL, NULL, '{"v": 4, "id": "1f1e9565-f7b5-611b-bfff-4e3d24048e09", "ts": "2026-11-26T05:01:00.357240+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.8175019358461908"}, "updated_channels": ["__start__"]}', '{"step": -1, "order": 7, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/00000001", "agent_factory_run": "0b3b86e45acdd7124ac55d9463741b64", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('done', '', '1f1e9565-f7b8-6e6a-8000-220749f05d67', '1f1e9565-f7b5-611b-bfff-4e3d24048e09', NULL, '{"v": 4, "id": "1f1e9565-f7b8-6e6a-8000-220749f05d67", "ts": "2026-11-26T05:01:00.358811+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8175019358461908"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.20174139904239818", "__start__": "00000000000000000000000000000002.0.20174139904239818", "branch:to:model": "00000000000000000000000000000002.0.20174139904239818"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "order": 7, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/00000001", "agent_factory_run": "0b3b86e45acdd7124ac55d9463741b64", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('done', '', '1f1e9565-f7d1-6537-8001-d7c1fcdf7a4d', '1f1e9565-f7b8-6e6a-8000-220749f05d67', NULL, '{"v": 4, "id": "1f1e9565-f7d1-6537-8001-d7c1fcdf7a4d", "ts": "2026-11-26T05:01:00.368813+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.20174139904239818"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8175019358461908"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000003.0.09437196729822861", "__start__": "00000000000000000000000000000002.0.20174139904239818", "loop_last_node": "00000000000000000000000000000003.0.09437196729822861", "branch:to:model": "00000000000000000000000000000003.0.09437196729822861"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 1, "order": 7, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/00000001", "agent_factory_run": "0b3b86e45acdd7124ac55d9463741b64", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('paid', '', '1f1e9565-f8aa-662f-bfff-85ac7538df0f', NULL, NULL, '{"v": 4, "id": "1f1e9565-f8aa-662f-bfff-85ac7538df0f", "ts": "2026-11-26T05:01:00.457726+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.744634944380679"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000001", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('paid', '', '1f1e9565-f8ae-6bd5-8000-c5b5b89c6e03', '1f1e9565-f8aa-662f-bfff-85ac7538df0f', NULL, '{"v": 4, "id": "1f1e9565-f8ae-6bd5-8000-c5b5b89c6e03", "ts": "2026-11-26T05:01:00.459506+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.744634944380679"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.8415937401512867", "__start__": "00000000000000000000000000000002.0.8415937401512867", "branch:to:model": "00000000000000000000000000000002.0.8415937401512867"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000001", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('paid', '', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1', '1f1e9565-f8ae-6bd5-8000-c5b5b89c6e03', NULL, '{"v": 4, "id": "1f1e9565-f8d6-64ff-8001-e09cdee5deb1", "ts": "2026-11-26T05:01:00.475704+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8415937401512867"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.744634944380679"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.32230194969014514", "__start__": "00000000000000000000000000000002.0.8415937401512867", "loop_last_node": "00000000000000000000000000000003.0.32230194969014514", "branch:to:model": "00000000000000000000000000000003.0.32230194969014514", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000001", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('review', '', '1f1e9565-f9bf-6482-bfff-c4c9e95a7b8c', NULL, NULL, '{"v": 4, "id": "1f1e9565-f9bf-6482-bfff-c4c9e95a7b8c", "ts": "2026-11-26T05:01:00.571143+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.8450025974097174"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/00000001", "agent_factory_run": "d1114450a33deb100ac6921e09e16e2a", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('decided', '', '1f1e9565-fabd-6929-bfff-2c1b00164f21', NULL, NULL, '{"v": 4, "id": "1f1e9565-fabd-6929-bfff-2c1b00164f21", "ts": "2026-11-26T05:01:00.675301+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.6557786527717413"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/00000001", "agent_factory_run": "bea7c3f0e46f8b44894678991818393d", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('review', '', '1f1e9565-f9c2-6271-8000-29e3c9ee2784', '1f1e9565-f9bf-6482-bfff-c4c9e95a7b8c', NULL, '{"v": 4, "id": "1f1e9565-f9c2-6271-8000-29e3c9ee2784", "ts": "2026-11-26T05:01:00.572315+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8450025974097174"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.11098177380911523", "__start__": "00000000000000000000000000000002.0.11098177380911523", "branch:to:model": "00000000000000000000000000000002.0.11098177380911523"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/00000001", "agent_factory_run": "d1114450a33deb100ac6921e09e16e2a", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('held', '', '1f1e9565-fbc5-6240-bfff-67afce8ead7c', NULL, NULL, '{"v": 4, "id": "1f1e9565-fbc5-6240-bfff-67afce8ead7c", "ts": "2026-11-26T05:01:00.783257+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.941046241360073"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/00000001", "agent_factory_run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('paid', '', '1f1e9565-fcfb-6eb9-8004-70a8a69f268c', '1f1e9565-fcf1-605f-8003-8b13c02a4769', NULL, '{"v": 4, "id": "1f1e9565-fcfb-6eb9-8004-70a8a69f268c", "ts": "2026-11-26T05:01:00.910547+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000005.0.44178509260122956"}, "tools": {}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.744634944380679"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.32230194969014514", "__start__": "00000000000000000000000000000002.0.8415937401512867", "loop_last_node": "00000000000000000000000000000003.0.32230194969014514", "branch:to:model": "00000000000000000000000000000003.0.32230194969014514", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000006.0.8530375737937336", "__start__": "00000000000000000000000000000002.0.8415937401512867", "__pregel_tasks": "00000000000000000000000000000005.0.44178509260122956", "loop_last_node": "00000000000000000000000000000006.0.8530375737937336", "branch:to:model": "00000000000000000000000000000006.0.8530375737937336", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.5721791470241748"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 4, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000002", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [5, 6]}}'),
	('running', '', '1f1e9565-fddc-6de1-8000-2fce104749b0', '1f1e9565-fdd8-6848-bfff-70a69fea0f76', NULL, '{"v": 4, "id": "1f1e9565-fddc-6de1-8000-2fce104749b0", "ts": "2026-11-26T05:01:01.002688+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.61725611087021"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.915468765004016", "__start__": "00000000000000000000000000000002.0.915468765004016", "branch:to:model": "00000000000000000000000000000002.0.915468765004016"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "running/00000001", "agent_factory_run": "221e35a6d8b04b8d5e8561d4fbd711ce", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('review', '', '1f1e9565-f9dc-69ce-8001-34ec622c2a6c', '1f1e9565-f9c2-6271-8000-29e3c9ee2784', NULL, '{"v": 4, "id": "1f1e9565-f9dc-69ce-8001-34ec622c2a6c", "ts": "2026-11-26T05:01:00.583151+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.11098177380911523"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8450025974097174"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.9660127718563065", "__start__": "00000000000000000000000000000002.0.11098177380911523", "loop_last_node": "00000000000000000000000000000003.0.9660127718563065", "branch:to:model": "00000000000000000000000000000003.0.9660127718563065", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.9660127718563065"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/00000001", "agent_factory_run": "d1114450a33deb100ac6921e09e16e2a", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('decided', '', '1f1e9565-fac2-6ab3-8000-599765a05eb0', '1f1e9565-fabd-6929-bfff-2c1b00164f21', NULL, '{"v": 4, "id": "1f1e9565-fac2-6ab3-8000-599765a05eb0", "ts": "2026-11-26T05:01:00.677384+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.6557786527717413"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.081796152870385", "__start__": "00000000000000000000000000000002.0.081796152870385", "branch:to:model": "00000000000000000000000000000002.0.081796152870385"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/00000001", "agent_factory_run": "bea7c3f0e46f8b44894678991818393d", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('decided', '', '1f1e9565-fadf-6401-8001-fcf4b37a50f8', '1f1e9565-fac2-6ab3-8000-599765a05eb0', NULL, '{"v": 4, "id": "1f1e9565-fadf-6401-8001-fcf4b37a50f8", "ts": "2026-11-26T05:01:00.689087+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.081796152870385"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.6557786527717413"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.03646798550156194", "__start__": "00000000000000000000000000000002.0.081796152870385", "loop_last_node": "00000000000000000000000000000003.0.03646798550156194", "branch:to:model": "00000000000000000000000000000003.0.03646798550156194", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.03646798550156194"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/00000001", "agent_factory_run": "bea7c3f0e46f8b44894678991818393d", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('held', '', '1f1e9565-fbc9-6726-8000-8c9ac27ce673', '1f1e9565-fbc5-6240-bfff-67afce8ead7c', NULL, '{"v": 4, "id": "1f1e9565-fbc9-6726-8000-8c9ac27ce673", "ts": "2026-11-26T05:01:00.785018+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.941046241360073"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.11079504704193499", "__start__": "00000000000000000000000000000002.0.11079504704193499", "branch:to:model": "00000000000000000000000000000002.0.11079504704193499"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/00000001", "agent_factory_run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('held', '', '1f1e9565-fbde-6e3b-8001-2be20e847f47', '1f1e9565-fbc9-6726-8000-8c9ac27ce673', NULL, '{"v": 4, "id": "1f1e9565-fbde-6e3b-8001-2be20e847f47", "ts": "2026-11-26T05:01:00.793798+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.11079504704193499"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.941046241360073"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.6839262002960601", "__start__": "00000000000000000000000000000002.0.11079504704193499", "loop_last_node": "00000000000000000000000000000003.0.6839262002960601", "branch:to:model": "00000000000000000000000000000003.0.6839262002960601", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.6839262002960601"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/00000001", "agent_factory_run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('paid', '', '1f1e9565-fcde-6b36-8002-e7aca31b0f10', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1', NULL, '{"v": 4, "id": "1f1e9565-fcde-6b36-8002-e7aca31b0f10", "ts": "2026-11-26T05:01:00.898572+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8415937401512867"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.744634944380679"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.32230194969014514", "__start__": "00000000000000000000000000000002.0.8415937401512867", "loop_last_node": "00000000000000000000000000000003.0.32230194969014514", "branch:to:model": "00000000000000000000000000000003.0.32230194969014514", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}}, "channel_values": {"loop_last_node": "model"}, "channel_versions": {"messages": "00000000000000000000000000000004.0.5721791470241748", "__start__": "00000000000000000000000000000002.0.8415937401512867", "__pregel_tasks": "00000000000000000000000000000004.0.5721791470241748", "loop_last_node": "00000000000000000000000000000003.0.32230194969014514", "branch:to:model": "00000000000000000000000000000003.0.32230194969014514", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.5721791470241748"}, "updated_channels": ["__pregel_tasks", "messages"]}', '{"step": 2, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000002", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [3, 4]}}'),
	('paid', '', '1f1e9565-fcf1-605f-8003-8b13c02a4769', '1f1e9565-fcde-6b36-8002-e7aca31b0f10', NULL, '{"v": 4, "id": "1f1e9565-fcf1-605f-8003-8b13c02a4769", "ts": "2026-11-26T05:01:00.906082+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8415937401512867"}, "tools": {}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.744634944380679"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.32230194969014514", "__start__": "00000000000000000000000000000002.0.8415937401512867", "loop_last_node": "00000000000000000000000000000003.0.32230194969014514", "branch:to:model": "00000000000000000000000000000003.0.32230194969014514", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.32230194969014514"}}, "channel_values": {"loop_last_node": "model", "branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000005.0.44178509260122956", "__start__": "00000000000000000000000000000002.0.8415937401512867", "__pregel_tasks": "00000000000000000000000000000005.0.44178509260122956", "loop_last_node": "00000000000000000000000000000003.0.32230194969014514", "branch:to:model": "00000000000000000000000000000005.0.44178509260122956", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.5721791470241748"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 3, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/00000002", "agent_factory_run": "a48675fc13c5aa17f9abc87ffeac264b", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [4, 5]}}'),
	('running', '', '1f1e9565-fdd8-6848-bfff-70a69fea0f76', NULL, NULL, '{"v": 4, "id": "1f1e9565-fdd8-6848-bfff-70a69fea0f76", "ts": "2026-11-26T05:01:01.000910+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.61725611087021"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "running/00000001", "agent_factory_run": "221e35a6d8b04b8d5e8561d4fbd711ce", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}');

INSERT INTO public.service_audit VALUES
	(1, 1795669260.819051, 'acme', 'paid', '5d53c67ce7a88a9e', 'ann', 'approve', '{"type": "approve"}', '8c3fa6f9372c1b5328b18ccc1e26ace624465b9267b9a619610c33a8e9206bac'),
	(2, 1795669260.938125, 'acme', 'review', '5ce0bbe055e1dd9f', 'ann', 'claim', NULL, '2aa9175099a6590c420b7d3b9a3a5036108905d870ab8fa22f458b7a76d63adc'),
	(3, 1795669261.008903, 'acme', 'decided', 'cbbcfd932ca72804', 'ann', 'approve', '{"type": "approve"}', '2d7d5382c45ac8be13e86a51bb66b9ddaed0dff4d95abfe7428b23af51fd1d13');

INSERT INTO public.service_effects VALUES
	(1, '3ec708cb40ade795cce0b8d84acffbd8', 'a48675fc13c5aa17f9abc87ffeac264b', 'pay', '\x9181a56575726f730a', 'f3376a7f54c44e8895957a0a246a5775', '2026-11-26T05:01:00+00:00', '\x91c7bb0594bc6c616e67636861696e5f636f72652e6d657373616765732e746f6f6cab546f6f6c4d65737361676589a7636f6e74656e74a8506169642031302eb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a4746f6f6ca46e616d65a3706179a26964c0ac746f6f6c5f63616c6c5f6964a763616c6c2d3130a86172746966616374c0a6737461747573a773756363657373b36d6f64656c5f76616c69646174655f6a736f6e');

INSERT INTO public.service_limits VALUES
	('acme', 1, NULL);

INSERT INTO public.service_runs VALUES
	(1, '0b3b86e45acdd7124ac55d9463741b64', 'done', 'acme', 'desk', 0, '{"kind": "message", "run": "0b3b86e45acdd7124ac55d9463741b64", "thread": "done", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceVBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUhlbGxvsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZKtkb25lOiBIZWxsb7Ntb2RlbF92YWxpZGF0ZV9qc29u", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'done', 'done/00000001', '1f1e9565-f7d1-6537-8001-d7c1fcdf7a4d', '{"order": 7}', NULL, 1795669260.223083),
	(3, 'd1114450a33deb100ac6921e09e16e2a', 'review', 'acme', 'desk', 0, '{"kind": "message", "run": "d1114450a33deb100ac6921e09e16e2a", "thread": "review", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceZBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxMrFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSucmV2aWV3OiBQYXkgMTKzbW9kZWxfdmFsaWRhdGVfanNvbg==", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'waiting', 'review/00000001', '1f1e9565-f9dc-69ce-8001-34ec622c2a6c', '{}', NULL, 1795669260.492889),
	(5, 'eaa6bbf36ccb5bfdc29e1c7cd5a60dac', 'held', 'acme', 'desk', 0, '{"kind": "message", "run": "eaa6bbf36ccb5bfdc29e1c7cd5a60dac", "thread": "held", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxNLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSsaGVsZDogUGF5IDE0s21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'waiting', 'held/00000001', '1f1e9565-fbde-6e3b-8001-2be20e847f47', '{}', NULL, 1795669260.714479),
	(8, '4cdabfe97bb7732f73b9270a56c4bd66', 'running', 'acme', 'desk', 0, '{"kind": "message", "run": "4cdabfe97bb7732f73b9270a56c4bd66", "thread": "running", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceYBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUFmdGVysWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK5ydW5uaW5nOiBBZnRlcrNtb2RlbF92YWxpZGF0ZV9qc29u", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'queued', NULL, NULL, '{}', NULL, 1795669261.006295),
	(4, 'bea7c3f0e46f8b44894678991818393d', 'decided', 'acme', 'desk', 0, '{"kind": "message", "run": "bea7c3f0e46f8b44894678991818393d", "thread": "decided", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceaBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxM7FhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSvZGVjaWRlZDogUGF5IDEzs21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'queued', 'decided/00000002', '1f1e9565-fadf-6401-8001-fcf4b37a50f8', '{}', NULL, 1795669260.61617),
	(9, '57609bbc99af8f9fe722535005e6fb0f', 'queued', 'acme', 'desk', 5, '{"kind": "message", "run": "57609bbc99af8f9fe722535005e6fb0f", "thread": "queued", "tenant": "acme", "agent": "desk", "priority": 5, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUZpcnN0sWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK1xdWV1ZWQ6IEZpcnN0s21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": {"user": "ann"}, "config": {"configurable": {}}, "stream": null, "trace": null}', 'queued', 'queued/00000001', NULL, '{}', NULL, 1795669261.013361),
	(11, '4cef52baf730d1835f304b17b6e0c39e', 'now', 'acme', 'desk', 0, '{"kind": "message", "run": "4cef52baf730d1835f304b17b6e0c39e", "thread": "now", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceUBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUxhdGVysWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZKpub3c6IExhdGVys21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'queued', 'now/00000001', NULL, '{}', NULL, 1795669261.018119),
	(2, 'a48675fc13c5aa17f9abc87ffeac264b', 'paid', 'acme', 'desk', 0, '{"kind": "message", "run": "a48675fc13c5aa17f9abc87ffeac264b", "thread": "paid", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxMLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSscGFpZDogUGF5IDEws21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'done', 'paid/00000002', '1f1e9565-fcfb-6eb9-8004-70a8a69f268c', '{}', NULL, 1795669260.390821),
	(6, 'c3c1da0aa60f53ce4c2d9d9632174009', 'held', 'acme', 'desk', 0, '{"kind": "message", "run": "c3c1da0aa60f53ce4c2d9d9632174009", "thread": "held", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plRoYW5rc7FhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSsaGVsZDogVGhhbmtzs21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'queued', NULL, NULL, '{}', NULL, 1795669260.931047),
	(7, '221e35a6d8b04b8d5e8561d4fbd711ce', 'running', 'acme', 'desk', 0, '{"kind": "message", "run": "221e35a6d8b04b8d5e8561d4fbd711ce", "thread": "running", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceYBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUJsb2NrsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK5ydW5uaW5nOiBCbG9ja7Ntb2RlbF92YWxpZGF0ZV9qc29u", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'running', 'running/00000001', NULL, '{}', NULL, 1795669260.945585),
	(10, '8298688bb3017fdd396e4069c44aee6b', 'queued', 'acme', 'desk', 0, '{"kind": "message", "run": "8298688bb3017fdd396e4069c44aee6b", "thread": "queued", "tenant": "acme", "agent": "desk", "priority": 0, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceZBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plNlY29uZLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSucXVldWVkOiBTZWNvbmSzbW9kZWxfdmFsaWRhdGVfanNvbg==", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "trace": null}', 'queued', NULL, NULL, '{}', NULL, 1795669261.016375);

INSERT INTO public.service_threads VALUES
	('done', 'acme', 'desk', 'idle', 1, NULL, '0b3b86e45acdd7124ac55d9463741b64', 1, 'f913f066c7b29127', '{}', NULL, 1795669260.212355, 1795669260.372105),
	('review', 'acme', 'desk', 'waiting', 1, NULL, 'd1114450a33deb100ac6921e09e16e2a', 1, 'f913f066c7b29127', '{}', NULL, 1795669260.491839, 1795669260.593442),
	('held', 'acme', 'desk', 'waiting', 1, NULL, 'eaa6bbf36ccb5bfdc29e1c7cd5a60dac', 1, 'f913f066c7b29127', '{}', NULL, 1795669260.713452, 1795669260.803645),
	('paid', 'acme', 'desk', 'idle', 2, NULL, 'a48675fc13c5aa17f9abc87ffeac264b', 2, 'f913f066c7b29127', '{}', NULL, 1795669260.389404, 1795669260.913016),
	('running', 'acme', 'desk', 'running', 1, 'vm-20778-67a0427a', '221e35a6d8b04b8d5e8561d4fbd711ce', 1, 'f913f066c7b29127', '{}', NULL, 1795669260.94464, 1795669260.946058),
	('decided', 'acme', 'desk', 'queued', 1, NULL, 'bea7c3f0e46f8b44894678991818393d', 2, 'f913f066c7b29127', '{}', NULL, 1795669260.615083, 1795669261.010038),
	('queued', 'acme', 'desk', 'queued', 0, NULL, '57609bbc99af8f9fe722535005e6fb0f', 1, NULL, '{}', NULL, 1795669261.012524, 1795669261.013795),
	('now', 'acme', 'desk', 'queued', 0, NULL, '4cef52baf730d1835f304b17b6e0c39e', 1, NULL, '{}', NULL, 1795669261.0173, 1795669261.01853);

INSERT INTO public.service_waits VALUES
	('c5de5c00089fdf45', 'held', 'acme', 'desk', 'eaa6bbf36ccb5bfdc29e1c7cd5a60dac', 'call-14', '65dd3b975712a730d48af63a5c866501', 'pay', 'review', '{"euros": 14}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 14}"', 'approve,edit,reject,respond', 0, 1795669260.803124, NULL, 'reject', NULL, NULL, NULL, NULL, NULL, '1f1e9565-fbde-6e3b-8001-2be20e847f47'),
	('5d53c67ce7a88a9e', 'paid', 'acme', 'desk', 'a48675fc13c5aa17f9abc87ffeac264b', 'call-10', '6f6ffca85a18f911baf4b2d8fd28522b', 'pay', 'review', '{"euros": 10}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 10}"', 'approve,edit,reject,respond', 0, 1795669260.48465, NULL, 'reject', NULL, NULL, 1795669260.817406, 'ann', '{"type": "approve"}', '1f1e9565-f8d6-64ff-8001-e09cdee5deb1'),
	('5ce0bbe055e1dd9f', 'review', 'acme', 'desk', 'd1114450a33deb100ac6921e09e16e2a', 'call-12', '91da19ada0e3c04e1c5cf6633f79e68e', 'pay', 'review', '{"euros": 12}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 12}"', 'approve,edit,reject,respond', 0, 1795669260.593105, NULL, 'reject', 'ann', 1795670160.937233, NULL, NULL, NULL, '1f1e9565-f9dc-69ce-8001-34ec622c2a6c'),
	('cbbcfd932ca72804', 'decided', 'acme', 'desk', 'bea7c3f0e46f8b44894678991818393d', 'call-13', 'd496ba3eb1d1e0f71e5753dde7ab62dd', 'pay', 'review', '{"euros": 13}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 13}"', 'approve,edit,reject,respond', 0, 1795669260.697804, NULL, 'reject', NULL, NULL, 1795669261.007992, 'ann', '{"type": "approve"}', '1f1e9565-fadf-6401-8001-fcf4b37a50f8');

INSERT INTO public.service_workers VALUES
	('vm-20778-67a0427a', 1795669261.208493, false, '{"host": "vm", "process": 20778, "slots": 1}');

SELECT pg_catalog.setval('public.service_effects_number_seq', 1, true);

SELECT pg_catalog.setval('public.service_events_id_seq', 6, true);

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
    ADD CONSTRAINT service_effects_key_key UNIQUE (key);

ALTER TABLE ONLY public.service_effects
    ADD CONSTRAINT service_effects_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.service_events
    ADD CONSTRAINT service_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_ledger_breakdown
    ADD CONSTRAINT service_ledger_breakdown_pkey PRIMARY KEY (scope, per, agent, part);

ALTER TABLE ONLY public.service_ledger
    ADD CONSTRAINT service_ledger_pkey PRIMARY KEY (scope, per);

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

CREATE INDEX ix_service_effects_run ON public.service_effects USING btree (run);

CREATE INDEX ix_service_events_at ON public.service_events USING btree (at);

CREATE INDEX ix_service_reservations_expires ON public.service_reservations USING btree (expires);

CREATE INDEX ix_service_runs_thread_id ON public.service_runs USING btree (thread_id);

CREATE INDEX service_events_job ON public.service_events USING btree (job, id);

CREATE INDEX service_threads_status ON public.service_threads USING btree (status);

CREATE INDEX service_threads_tenant ON public.service_threads USING btree (tenant, updated_at);

CREATE INDEX service_waits_deadline ON public.service_waits USING btree (deadline) WHERE ((decided_at IS NULL) AND (deadline IS NOT NULL));

CREATE INDEX service_waits_open ON public.service_waits USING btree (tenant, priority DESC, created_at) WHERE (decided_at IS NULL);

CREATE INDEX service_waits_thread ON public.service_waits USING btree (thread_id);

CREATE TRIGGER dbos_notifications_trigger AFTER INSERT ON dbos.notifications FOR EACH ROW EXECUTE FUNCTION dbos.notifications_function();

CREATE TRIGGER service_audit_refuse BEFORE DELETE OR UPDATE OR TRUNCATE ON public.service_audit FOR EACH STATEMENT EXECUTE FUNCTION public.service_audit_refuse();

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_destination_uuid_fkey FOREIGN KEY (destination_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;
