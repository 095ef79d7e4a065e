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

CREATE TABLE public.service_approvals (
    id character varying NOT NULL,
    tenant character varying NOT NULL,
    agent character varying NOT NULL,
    tool character varying NOT NULL,
    schema character varying NOT NULL,
    args json NOT NULL,
    "when" json,
    seconds double precision NOT NULL,
    by character varying NOT NULL,
    thread character varying,
    given_in character varying NOT NULL,
    given_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    revoked_at double precision,
    revoked_by character varying,
    uses bigint DEFAULT '0'::bigint NOT NULL
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

CREATE TABLE public.service_questions (
    thread_id character varying NOT NULL,
    job character varying NOT NULL,
    interrupt_id character varying NOT NULL
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
    usage json NOT NULL,
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
    title character varying,
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
    job character varying NOT NULL,
    call_id character varying NOT NULL,
    digest character varying NOT NULL,
    tool character varying NOT NULL,
    kind character varying NOT NULL,
    args text NOT NULL,
    question text,
    allowed character varying NOT NULL,
    call_digest character varying DEFAULT ''::character varying NOT NULL,
    reviewers json NOT NULL,
    remember double precision,
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

CREATE TABLE public.store (
    prefix text NOT NULL,
    key text NOT NULL,
    value jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    updated_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    expires_at timestamp with time zone,
    ttl_minutes integer
);

CREATE TABLE public.store_migrations (
    v integer NOT NULL
);

ALTER TABLE ONLY public.service_effects ALTER COLUMN number SET DEFAULT nextval('public.service_effects_number_seq'::regclass);

ALTER TABLE ONLY public.service_events ALTER COLUMN id SET DEFAULT nextval('public.service_events_id_seq'::regclass);

ALTER TABLE ONLY public.service_runs ALTER COLUMN seq SET DEFAULT nextval('public.service_runs_seq_seq'::regclass);

INSERT INTO dbos.application_versions VALUES
	('a534f2c7-f2c7-4312-8970-5eb24bdb7528', '1', 1795669264746, 1795669264746, 'agent_factory');

INSERT INTO dbos.dbos_migrations VALUES
	(125);

INSERT INTO dbos.queues VALUES
	('4a151bd1-3917-43ed-aab1-c99bf0b469f7', 'agent_factory:acme', 1, NULL, NULL, NULL, true, false, 0.1, 1795669264694, 1795669264693, 'agent_factory', NULL, NULL, NULL, NULL),
	('c4332685-37a2-4edc-aab7-fe5bc708bb7c', 'agent_factory', NULL, 1, NULL, NULL, true, false, 0.1, 1795669264733, 1795669264732, 'agent_factory', NULL, NULL, NULL, NULL),
	('2334ac8e-6619-487e-b5e9-9ba89e526144', 'agent_factory/new:acme', 1, NULL, NULL, NULL, true, false, 0.1, 1795669264923, 1795669264922, 'agent_factory', NULL, NULL, NULL, NULL);

INSERT INTO dbos.workflow_input VALUES
	('passed/3737573019856294801', 'gASVQQIAAAAAAAB9lCiMBGFyZ3OUWCICAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNjI0ZTE0NGY5ODE5ZTQxNGFlMzhhNWI5YTM2NjM4MzUiLCAidGhyZWFkIjogInBhc3NlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJuZXciLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlWEJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBVaGxiR3h2c1dGa1pHbDBhVzl1WVd4ZmEzZGhjbWR6Z0xGeVpYTndiMjV6WlY5dFpYUmhaR0YwWVlDa2RIbHdaYVZvZFcxaGJxUnVZVzFsd0tKcFpLMXdZWE56WldRNklFaGxiR3h2czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjaGVja3BvaW50IjogbnVsbCwgImNvbnRleHQiOiBudWxsLCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAic3ViZ3JhcGhzIjogdHJ1ZSwgImludGVycnVwdF9iZWZvcmUiOiBudWxsLCAiaW50ZXJydXB0X2FmdGVyIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669264710),
	('done/1831122888132644887', 'gASVPAIAAAAAAAB9lCiMBGFyZ3OUWB0CAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZDA2NGRmYTkzNjQzZGU5MzkwODNiZTljNzRhZmFhYzAiLCAidGhyZWFkIjogImRvbmUiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJ0cmFjZSI6IG51bGwsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VWQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcFVobGJHeHZzV0ZrWkdsMGFXOXVZV3hmYTNkaGNtZHpnTEZ5WlhOd2IyNXpaVjl0WlhSaFpHRjBZWUNrZEhsd1phVm9kVzFoYnFSdVlXMWx3S0pwWkt0a2IyNWxPaUJJWld4c2I3TnRiMlJsYkY5MllXeHBaR0YwWlY5cWMyOXUiLCAiY2hlY2twb2ludCI6IG51bGwsICJjb250ZXh0IjogbnVsbCwgImNvbmZpZyI6IHsiY29uZmlndXJhYmxlIjoge319LCAic3RyZWFtIjogbnVsbCwgInN1YmdyYXBocyI6IHRydWUsICJpbnRlcnJ1cHRfYmVmb3JlIjogbnVsbCwgImludGVycnVwdF9hZnRlciI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669264772),
	('passed/3737573019856294801~2', 'gASVQQIAAAAAAAB9lCiMBGFyZ3OUWCICAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNjI0ZTE0NGY5ODE5ZTQxNGFlMzhhNWI5YTM2NjM4MzUiLCAidGhyZWFkIjogInBhc3NlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJuZXciLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlWEJaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBVaGxiR3h2c1dGa1pHbDBhVzl1WVd4ZmEzZGhjbWR6Z0xGeVpYTndiMjV6WlY5dFpYUmhaR0YwWVlDa2RIbHdaYVZvZFcxaGJxUnVZVzFsd0tKcFpLMXdZWE56WldRNklFaGxiR3h2czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjaGVja3BvaW50IjogbnVsbCwgImNvbnRleHQiOiBudWxsLCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAic3ViZ3JhcGhzIjogdHJ1ZSwgImludGVycnVwdF9iZWZvcmUiOiBudWxsLCAiaW50ZXJydXB0X2FmdGVyIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669264942),
	('paid/2817085689161406016', 'gASVQAIAAAAAAAB9lCiMBGFyZ3OUWCECAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZDlkZTA1MDQxZTliNmJmN2NmMmIwMTQxNTJkOTQ3MGUiLCAidGhyZWFkIjogInBhaWQiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJ0cmFjZSI6IG51bGwsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VYQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcGxCaGVTQXhNTEZoWkdScGRHbHZibUZzWDJ0M1lYSm5jNEN4Y21WemNHOXVjMlZmYldWMFlXUmhkR0dBcEhSNWNHV2xhSFZ0WVc2a2JtRnRaY0NpYVdTc2NHRnBaRG9nVUdGNUlERXdzMjF2WkdWc1gzWmhiR2xrWVhSbFgycHpiMjQ9IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJzdWJncmFwaHMiOiB0cnVlLCAiaW50ZXJydXB0X2JlZm9yZSI6IG51bGwsICJpbnRlcnJ1cHRfYWZ0ZXIiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669265098),
	('review/3461641969148248552', 'gASVRgIAAAAAAAB9lCiMBGFyZ3OUWCcCAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZDA1Y2I3MTY4Y2RkMzk2MDY3NzA4M2U2OTJjYzUwMTUiLCAidGhyZWFkIjogInJldmlldyIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogMCwgInRyYWNlIjogbnVsbCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVpCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwbEJoZVNBeE1yRmhaR1JwZEdsdmJtRnNYMnQzWVhKbmM0Q3hjbVZ6Y0c5dWMyVmZiV1YwWVdSaGRHR0FwSFI1Y0dXbGFIVnRZVzZrYm1GdFpjQ2lhV1N1Y21WMmFXVjNPaUJRWVhrZ01US3piVzlrWld4ZmRtRnNhV1JoZEdWZmFuTnZiZz09IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJzdWJncmFwaHMiOiB0cnVlLCAiaW50ZXJydXB0X2JlZm9yZSI6IG51bGwsICJpbnRlcnJ1cHRfYWZ0ZXIiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669265214),
	('decided/76773351072938037', 'gASVRwIAAAAAAAB9lCiMBGFyZ3OUWCgCAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiODIwNGFjYmIxZTM3YTQ5OTMwMzZkYmQ3ZjNmOTUyZWUiLCAidGhyZWFkIjogImRlY2lkZWQiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJ0cmFjZSI6IG51bGwsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VhQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcGxCaGVTQXhNN0ZoWkdScGRHbHZibUZzWDJ0M1lYSm5jNEN4Y21WemNHOXVjMlZmYldWMFlXUmhkR0dBcEhSNWNHV2xhSFZ0WVc2a2JtRnRaY0NpYVdTdlpHVmphV1JsWkRvZ1VHRjVJREV6czIxdlpHVnNYM1poYkdsa1lYUmxYMnB6YjI0PSIsICJjaGVja3BvaW50IjogbnVsbCwgImNvbnRleHQiOiBudWxsLCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAic3ViZ3JhcGhzIjogdHJ1ZSwgImludGVycnVwdF9iZWZvcmUiOiBudWxsLCAiaW50ZXJydXB0X2FmdGVyIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669265319),
	('held/1271544744341818552', 'gASVQAIAAAAAAAB9lCiMBGFyZ3OUWCECAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNzc4YjZmNWRlNTc3M2QzNTZmMGUwYTUwNmNmODA3OWYiLCAidGhyZWFkIjogImhlbGQiLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJ0cmFjZSI6IG51bGwsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VYQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcGxCaGVTQXhOTEZoWkdScGRHbHZibUZzWDJ0M1lYSm5jNEN4Y21WemNHOXVjMlZmYldWMFlXUmhkR0dBcEhSNWNHV2xhSFZ0WVc2a2JtRnRaY0NpYVdTc2FHVnNaRG9nVUdGNUlERTBzMjF2WkdWc1gzWmhiR2xrWVhSbFgycHpiMjQ9IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJzdWJncmFwaHMiOiB0cnVlLCAiaW50ZXJydXB0X2JlZm9yZSI6IG51bGwsICJpbnRlcnJ1cHRfYWZ0ZXIiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669265418),
	('paid/2817085689161406017', 'gASVNwEAAAAAAAB9lCiMBGFyZ3OUWBgBAAB7ImtpbmQiOiAiZGVjaXNpb24iLCAicnVuIjogImQ5ZGUwNTA0MWU5YjZiZjdjZjJiMDE0MTUyZDk0NzBlIiwgInRocmVhZCI6ICJwYWlkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiZGVjaXNpb25zIjogeyI1ZDQ1ODk4OWU3ZGE1ZDk0N2MzZjg1ODA3OTZhZGYwNiI6IHsidHlwZSI6ICJhcHByb3ZlIiwgImRpZ2VzdCI6ICJmZDMxNmUxN2JmZDYyNjEwNjgyZjg3MThkY2U0N2FiMyJ9fSwgInN0cmVhbSI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669265538),
	('running/4241104611733866393', 'gASVQwIAAAAAAAB9lCiMBGFyZ3OUWCQCAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZmQ4ODg0YWNmOGNiN2E2OTI5MmNhM2MyZWE4Yzc2ZTIiLCAidGhyZWFkIjogInJ1bm5pbmciLCAidGVuYW50IjogImFjbWUiLCAiYWdlbnQiOiAiZGVzayIsICJwcmlvcml0eSI6IDAsICJ0cmFjZSI6IG51bGwsICJpbnB1dCI6ICJiWE5uY0dGamF5Q0JxRzFsYzNOaFoyVnprY2VZQlpTOWJHRnVaMk5vWVdsdVgyTnZjbVV1YldWemMyRm5aWE11YUhWdFlXNnNTSFZ0WVc1TlpYTnpZV2RsaHFkamIyNTBaVzUwcFVKc2IyTnJzV0ZrWkdsMGFXOXVZV3hmYTNkaGNtZHpnTEZ5WlhOd2IyNXpaVjl0WlhSaFpHRjBZWUNrZEhsd1phVm9kVzFoYnFSdVlXMWx3S0pwWks1eWRXNXVhVzVuT2lCQ2JHOWphN050YjJSbGJGOTJZV3hwWkdGMFpWOXFjMjl1IiwgImNoZWNrcG9pbnQiOiBudWxsLCAiY29udGV4dCI6IG51bGwsICJjb25maWciOiB7ImNvbmZpZ3VyYWJsZSI6IHt9fSwgInN0cmVhbSI6IG51bGwsICJzdWJncmFwaHMiOiB0cnVlLCAiaW50ZXJydXB0X2JlZm9yZSI6IG51bGwsICJpbnRlcnJ1cHRfYWZ0ZXIiOiBudWxsfZSFlIwGa3dhcmdzlH2UdS4=', 1795669265707),
	('decided/76773351072938038', 'gASVOgEAAAAAAAB9lCiMBGFyZ3OUWBsBAAB7ImtpbmQiOiAiZGVjaXNpb24iLCAicnVuIjogIjgyMDRhY2JiMWUzN2E0OTkzMDM2ZGJkN2YzZjk1MmVlIiwgInRocmVhZCI6ICJkZWNpZGVkIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiZGVjaXNpb25zIjogeyJkMjc3N2MyYzg3YmQxNTZhMWVhZTNhNzg5MmQwMWQ1NyI6IHsidHlwZSI6ICJhcHByb3ZlIiwgImRpZ2VzdCI6ICI1NDBlNzMzZjM4NWE2ZTM4ZDMxZDg0MmU0M2QzYTVjOSJ9fSwgInN0cmVhbSI6IG51bGx9lIWUjAZrd2FyZ3OUfZR1Lg==', 1795669265870),
	('queued/3021605540507903985', 'gASVTQIAAAAAAAB9lCiMBGFyZ3OUWC4CAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiZDA4ZTA2NWM3NmNmNTA4NzMwYjQ1YmQxMWUzOWY2MmYiLCAidGhyZWFkIjogInF1ZXVlZCIsICJ0ZW5hbnQiOiAiYWNtZSIsICJhZ2VudCI6ICJkZXNrIiwgInByaW9yaXR5IjogNSwgInRyYWNlIjogbnVsbCwgImlucHV0IjogImJYTm5jR0ZqYXlDQnFHMWxjM05oWjJWemtjZVhCWlM5YkdGdVoyTm9ZV2x1WDJOdmNtVXViV1Z6YzJGblpYTXVhSFZ0WVc2c1NIVnRZVzVOWlhOellXZGxocWRqYjI1MFpXNTBwVVpwY25OMHNXRmtaR2wwYVc5dVlXeGZhM2RoY21kemdMRnlaWE53YjI1elpWOXRaWFJoWkdGMFlZQ2tkSGx3WmFWb2RXMWhicVJ1WVcxbHdLSnBaSzF4ZFdWMVpXUTZJRVpwY25OMHMyMXZaR1ZzWDNaaGJHbGtZWFJsWDJwemIyND0iLCAiY2hlY2twb2ludCI6IG51bGwsICJjb250ZXh0IjogeyJ1c2VyIjogImFubiJ9LCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAic3ViZ3JhcGhzIjogdHJ1ZSwgImludGVycnVwdF9iZWZvcmUiOiBudWxsLCAiaW50ZXJydXB0X2FmdGVyIjogbnVsbH2UhZSMBmt3YXJnc5R9lHUu', 1795669265877),
	('later/489307549771930083', 'gASVYQIAAAAAAAB9lCiMBGFyZ3OUWEICAAB7ImtpbmQiOiAibWVzc2FnZSIsICJydW4iOiAiNWZiYWUzZDcwNmU2Y2QxY2M3YzAxYTFkODBmYTNjMGMiLCAidGhyZWFkIjogImxhdGVyIiwgInRlbmFudCI6ICJhY21lIiwgImFnZW50IjogImRlc2siLCAicHJpb3JpdHkiOiAwLCAidHJhY2UiOiBudWxsLCAiaW5wdXQiOiAiYlhObmNHRmpheUNCcUcxbGMzTmhaMlZ6a2NlV0JaUzliR0Z1WjJOb1lXbHVYMk52Y21VdWJXVnpjMkZuWlhNdWFIVnRZVzZzU0hWdFlXNU5aWE56WVdkbGhxZGpiMjUwWlc1MHBVeGhkR1Z5c1dGa1pHbDBhVzl1WVd4ZmEzZGhjbWR6Z0xGeVpYTndiMjV6WlY5dFpYUmhaR0YwWVlDa2RIbHdaYVZvZFcxaGJxUnVZVzFsd0tKcFpLeHNZWFJsY2pvZ1RHRjBaWEt6Ylc5a1pXeGZkbUZzYVdSaGRHVmZhbk52Ymc9PSIsICJjaGVja3BvaW50IjogbnVsbCwgImNvbnRleHQiOiBudWxsLCAiY29uZmlnIjogeyJjb25maWd1cmFibGUiOiB7fX0sICJzdHJlYW0iOiBudWxsLCAic3ViZ3JhcGhzIjogdHJ1ZSwgImludGVycnVwdF9iZWZvcmUiOiBudWxsLCAiaW50ZXJydXB0X2FmdGVyIjogbnVsbCwgImJlZ2luc19hdCI6IDI3OTU2NjkyNjUuOTEwMDM4fZSFlIwGa3dhcmdzlH2UdS4=', 1795669265910);

INSERT INTO dbos.workflow_output VALUES
	('passed/3737573019856294801', 'gASVGQAAAAAAAAB9lIwGc3RhdHVzlIwJcGFzc2VkIG9ulHMu', NULL, 1795669264953),
	('done/1831122888132644887', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMjRhYy02ZDA1LTgwMDEtYzI0N2ZhNTc4MjBjlHUu', NULL, 1795669265094),
	('paid/2817085689161406016', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMjViNC02MDNmLTgwMDEtNDI4MDI5MWY5NDgzlHUu', NULL, 1795669265210),
	('review/3461641969148248552', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMjZiNi02MGI4LTgwMDEtODI1OWQ3N2VmMjAylHUu', NULL, 1795669265315),
	('decided/76773351072938037', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMjdjOC02ZTU1LTgwMDEtY2VjNTlkZmY1MzFllHUu', NULL, 1795669265414),
	('held/1271544744341818552', 'gASVTwAAAAAAAAB9lCiMBnN0YXR1c5SMB3dhaXRpbmeUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMjhkNS02YjkzLTgwMDEtYWFhMzUwZTY1Y2FjlHUu', NULL, 1795669265530),
	('paid/2817085689161406017', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMmE1MS02ZGNjLTgwMDQtMzRjYjA0MjNhZTk4lHUu', NULL, 1795669265675),
	('passed/3737573019856294801~2', 'gASVTAAAAAAAAAB9lCiMBnN0YXR1c5SMBGRvbmWUjA1jaGVja3BvaW50X2lklIwkMWYxZTk1NjYtMmQwZi02NDk3LTgwMDEtNjM2ODdlYjczMjYylHUu', NULL, 1795669265964);

INSERT INTO dbos.workflow_schedules VALUES
	('d0e07781-a78b-4de7-b7c3-cb5b9e9ff6a2', 'nightly', 'agent_factory.run_schedule', NULL, '0 3 * * *', 'ACTIVE', 'gASVaAAAAAAAAACMZHsiYWdlbnQiOiAiZGVzayIsICJtZXNzYWdlIjogIkdvb2QgbmlnaHQiLCAidGhyZWFkIjogIm5pZ2h0bHkiLCAidGVuYW50IjogImFjbWUiLCAibmFtZSI6ICJuaWdodGx5In2ULg==', NULL, false, 'Europe/Berlin', NULL, 'agent_factory');

INSERT INTO dbos.workflow_status VALUES
	('passed/3737573019856294801', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669264710, 1795669264953, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669264897, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669264953, 'null', NULL, NULL, false, 'agent_factory', 'e6cfc69b-c4b6-4cd4-a96f-50cbd10795a8'),
	('done/1831122888132644887', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669264772, 1795669265094, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265019, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265094, 'null', NULL, NULL, false, 'agent_factory', '3c15aa3a-2df1-43bb-bbf3-f3fab4ea7474'),
	('paid/2817085689161406016', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669265098, 1795669265210, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265136, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265210, 'null', NULL, NULL, false, 'agent_factory', '687fde4d-185d-410b-85aa-2a72fc5f0966'),
	('review/3461641969148248552', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669265214, 1795669265315, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265249, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265315, 'null', NULL, NULL, false, 'agent_factory', '0ee51a98-8e48-4789-862d-54bf5bff0381'),
	('decided/76773351072938037', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669265319, 1795669265414, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265361, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265414, 'null', NULL, NULL, false, 'agent_factory', '0d0b46c4-86a6-45da-bbf5-94cb4088d017'),
	('held/1271544744341818552', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669265418, 1795669265530, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265468, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265530, 'null', NULL, NULL, false, 'agent_factory', 'f68a68fb-dd4f-4147-a90e-51d35c60a1c0'),
	('paid/2817085689161406017', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669265538, 1795669265675, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265587, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265675, 'null', NULL, NULL, false, 'agent_factory', 'a8f219dd-f86e-402a-b8f7-03695603e2a0'),
	('running/4241104611733866393', 'PENDING', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669265707, 1795669265811, '1', NULL, NULL, NULL, 1, 'agent_factory:acme', NULL, NULL, NULL, 1795669265811, NULL, 1001, NULL, NULL, 'a4215636-e2ec-47b2-8968-dd0730408710', NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '8be979f3-65b2-43cb-8ebd-f37b99809b8b'),
	('decided/76773351072938038', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669265870, 1795669265870, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', 'eef2280c-28e6-426b-9a9c-b6c96be3ba3b'),
	('queued/3021605540507903985', 'ENQUEUED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669265877, 1795669265877, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 996, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '0e04f3cf-0844-4672-8c28-2731e12a1af7'),
	('later/489307549771930083', 'DELAYED', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795669265910, 1795669265910, '1', NULL, NULL, NULL, 0, 'agent_factory:acme', NULL, NULL, NULL, NULL, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', 2795669265910, false, false, NULL, 'null', NULL, NULL, false, 'agent_factory', '8a28c1c1-08da-423a-8040-ad7ece96c049'),
	('passed/3737573019856294801~2', 'SUCCESS', 'agent_factory.run_job', NULL, NULL, NULL, NULL, NULL, NULL, 'vm-21101-f2a9b8cd', 1795669264942, 1795669265964, '1', NULL, NULL, NULL, 1, 'agent_factory/new:acme', NULL, NULL, NULL, 1795669265883, NULL, 1001, NULL, NULL, NULL, NULL, 'py_pickle', NULL, false, false, 1795669265964, 'null', NULL, NULL, false, 'agent_factory', '38077172-0d1a-4733-b7e2-5f833046899d');

INSERT INTO public.checkpoint_blobs VALUES
	('done', '', '__start__', '00000000000000000000000000000001.0.48758279793582426', 'msgpack', '\x81a86d6573736167657391c7950594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ab646f6e653a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e'),
	('paid', '', '__start__', '00000000000000000000000000000001.0.565602771033002', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac706169643a20506179203130b36d6f64656c5f76616c69646174655f6a736f6e'),
	('review', '', '__start__', '00000000000000000000000000000001.0.7729215086585668', 'msgpack', '\x81a86d6573736167657391c7990594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203132b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae7265766965773a20506179203132b36d6f64656c5f76616c69646174655f6a736f6e'),
	('decided', '', '__start__', '00000000000000000000000000000001.0.3419484193945428', 'msgpack', '\x81a86d6573736167657391c79a0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203133b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964af646563696465643a20506179203133b36d6f64656c5f76616c69646174655f6a736f6e'),
	('held', '', '__start__', '00000000000000000000000000000001.0.8169501339777551', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203134b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac68656c643a20506179203134b36d6f64656c5f76616c69646174655f6a736f6e'),
	('paid', '', '__pregel_tasks', '00000000000000000000000000000004.0.6318106460531799', 'msgpack', '\x91c74f0193af6c616e6767726170682e7479706573a453656e6492a5746f6f6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6c'),
	('paid', '', '__pregel_tasks', '00000000000000000000000000000005.0.14386944317521966', 'msgpack', '\x90'),
	('running', '', '__start__', '00000000000000000000000000000001.0.8120111776009424', 'msgpack', '\x81a86d6573736167657391c7980594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a5426c6f636bb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae72756e6e696e673a20426c6f636bb36d6f64656c5f76616c69646174655f6a736f6e'),
	('passed', '', '__start__', '00000000000000000000000000000001.0.8190406640096963', 'msgpack', '\x81a86d6573736167657391c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ad7061737365643a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e');

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
	('done', '', '1f1e9566-246d-6a5c-bfff-a3335946854e', '80d0edeb-30c9-def9-2360-38468df34d82', 0, 'messages', 'msgpack', '\x91c7950594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ab646f6e653a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('done', '', '1f1e9566-246d-6a5c-bfff-a3335946854e', '80d0edeb-30c9-def9-2360-38468df34d82', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('done', '', '1f1e9566-247d-6e44-8000-d31e6018d21f', '6cd8213b-a9cd-2af4-9f41-30d56af25683', 0, 'messages', 'msgpack', '\x91c7e00594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ab446f6e653a2048656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d62323133616562632d363063352d343163622d396136632d626137356539383734386535aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('done', '', '1f1e9566-247d-6e44-8000-d31e6018d21f', '6cd8213b-a9cd-2af4-9f41-30d56af25683', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('done', '', '1f1e9566-247d-6e44-8000-d31e6018d21f', '6cd8213b-a9cd-2af4-9f41-30d56af25683', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9566-258d-6ab5-bfff-94a3fd26dd03', '950e0a6e-70b5-ae2c-1bf1-3421b6a14b7a', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac706169643a20506179203130b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9566-258d-6ab5-bfff-94a3fd26dd03', '950e0a6e-70b5-ae2c-1bf1-3421b6a14b7a', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9566-2592-6ab1-8000-299b323d6ec5', 'd483f595-d3b8-0f8a-dcdb-f59b1c5b783b', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d62353031643436322d666134652d343737362d386265302d666239363439366262373438aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('paid', '', '1f1e9566-2592-6ab1-8000-299b323d6ec5', 'd483f595-d3b8-0f8a-dcdb-f59b1c5b783b', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('paid', '', '1f1e9566-2592-6ab1-8000-299b323d6ec5', 'd483f595-d3b8-0f8a-dcdb-f59b1c5b783b', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9566-25b4-603f-8001-4280291f9483', '7dead835-a35b-dc50-94bb-bf26e3105d80', -3, '__interrupt__', 'msgpack', '\x91c80c1c0293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739185a46e616d65a3706179a46172677381a56575726f730aab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031307dac746f6f6c5f63616c6c5f6964a763616c6c2d3130a6646967657374d9206664333136653137626664363236313036383266383731386463653437616233ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206238383564626162363232663131373466356135653061303765666561353139af726573706f6e73655f736368656d6183a5246465667387a6416374696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99f52756e207468652063616c6c2061732069742069732e0a0a417474726962757465733a0a2020202072656d656d6265723a20417070726f7665206c617465722063616c6c732061732077656c6c2e0a202020206469676573743a2054686520646967657374206f66207468652063616c6c207468617420697320617070726f7665643b2065616368206465636973696f6e206d61792068617665206f6e652eaa70726f7065727469657383a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a872656d656d62657281a424726566b0232f24646566732f52656d656d626572a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99952756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732c207769746820616c6c206f662069747320617267756d656e74732e204e6f7468696e67206973206d65726765642eaa70726f7065727469657383a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657383a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374a852656d656d62657286b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9e7417070726f7665206c617465722063616c6c73206f662074686520746f6f6c2061732077656c6c2e0a0a417474726962757465733a0a202020207365636f6e64733a20466f7220686f77206c6f6e672e0a202020207768656e3a204120636f6e646974696f6e206f6e20746865697220617267756d656e74733b20607b7d6020686f6c647320666f7220616e792e2044656661756c743a207468652073616d6520617267756d656e74732e0a202020207468726561643a204f6e6c7920696e2074686973207468726561642e0a2020202062793a2057686f20617070726f766573207468656d2eaa70726f7065727469657384a77365636f6e647382a57469746c65a75365636f6e6473a474797065a66e756d626572a47768656e83b46164646974696f6e616c50726f70657274696573c3a57469746c65a45768656ea474797065a66f626a656374a674687265616482a57469746c65a6546872656164a474797065a7626f6f6c65616ea2627982a57469746c65a24279a474797065a6737472696e67a8726571756972656491a77365636f6e6473a57469746c65a852656d656d626572a474797065a66f626a656374af526573706f6e644465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c3b20666f722061207175657374696f6e206f66206120746f6f6c206f72206120686f6f6b2c20616e79204a534f4e2076616c75652eaa70726f7065727469657383a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676581a57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('review', '', '1f1e9566-2686-6cd0-bfff-a0bab1b10357', 'd4e4a959-4172-9f3b-82ab-805d67458722', 0, 'messages', 'msgpack', '\x91c7990594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203132b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae7265766965773a20506179203132b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('review', '', '1f1e9566-2686-6cd0-bfff-a0bab1b10357', 'd4e4a959-4172-9f3b-82ab-805d67458722', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('review', '', '1f1e9566-268f-6205-8000-a824d506e026', 'b5cd8e8f-e280-f21e-fcf0-67ad784abedc', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d62343132313437392d633233372d343431372d626534372d663833326234666332613463aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730ca26964a763616c6c2d3132a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('review', '', '1f1e9566-268f-6205-8000-a824d506e026', 'b5cd8e8f-e280-f21e-fcf0-67ad784abedc', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('review', '', '1f1e9566-268f-6205-8000-a824d506e026', 'b5cd8e8f-e280-f21e-fcf0-67ad784abedc', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('review', '', '1f1e9566-26b6-60b8-8001-8259d77ef202', 'e25ddb8d-123b-04c8-60c8-895004ce0350', -3, '__interrupt__', 'msgpack', '\x91c80c1c0293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739185a46e616d65a3706179a46172677381a56575726f730cab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031327dac746f6f6c5f63616c6c5f6964a763616c6c2d3132a6646967657374d9203834656162316637663762653535363965663230333432326566633138393736ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9206331383431333336346161623335386334383338646438656639376130623236af726573706f6e73655f736368656d6183a5246465667387a6416374696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99f52756e207468652063616c6c2061732069742069732e0a0a417474726962757465733a0a2020202072656d656d6265723a20417070726f7665206c617465722063616c6c732061732077656c6c2e0a202020206469676573743a2054686520646967657374206f66207468652063616c6c207468617420697320617070726f7665643b2065616368206465636973696f6e206d61792068617665206f6e652eaa70726f7065727469657383a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a872656d656d62657281a424726566b0232f24646566732f52656d656d626572a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99952756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732c207769746820616c6c206f662069747320617267756d656e74732e204e6f7468696e67206973206d65726765642eaa70726f7065727469657383a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657383a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374a852656d656d62657286b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9e7417070726f7665206c617465722063616c6c73206f662074686520746f6f6c2061732077656c6c2e0a0a417474726962757465733a0a202020207365636f6e64733a20466f7220686f77206c6f6e672e0a202020207768656e3a204120636f6e646974696f6e206f6e20746865697220617267756d656e74733b20607b7d6020686f6c647320666f7220616e792e2044656661756c743a207468652073616d6520617267756d656e74732e0a202020207468726561643a204f6e6c7920696e2074686973207468726561642e0a2020202062793a2057686f20617070726f766573207468656d2eaa70726f7065727469657384a77365636f6e647382a57469746c65a75365636f6e6473a474797065a66e756d626572a47768656e83b46164646974696f6e616c50726f70657274696573c3a57469746c65a45768656ea474797065a66f626a656374a674687265616482a57469746c65a6546872656164a474797065a7626f6f6c65616ea2627982a57469746c65a24279a474797065a6737472696e67a8726571756972656491a77365636f6e6473a57469746c65a852656d656d626572a474797065a66f626a656374af526573706f6e644465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c3b20666f722061207175657374696f6e206f66206120746f6f6c206f72206120686f6f6b2c20616e79204a534f4e2076616c75652eaa70726f7065727469657383a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676581a57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('decided', '', '1f1e9566-2794-6294-bfff-789e34f33128', '0c84af82-1c5c-900c-f711-9b5e2920ac4b', 0, 'messages', 'msgpack', '\x91c79a0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203133b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964af646563696465643a20506179203133b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('decided', '', '1f1e9566-2794-6294-bfff-789e34f33128', '0c84af82-1c5c-900c-f711-9b5e2920ac4b', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('decided', '', '1f1e9566-27b1-66c8-8000-cf367036eead', '1f0cf6ec-1a23-a7be-8e8f-c9dad7b09530', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d61633030383036372d646231342d343233302d383034642d643134393634353062616162aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730da26964a763616c6c2d3133a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('decided', '', '1f1e9566-27b1-66c8-8000-cf367036eead', '1f0cf6ec-1a23-a7be-8e8f-c9dad7b09530', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('decided', '', '1f1e9566-27b1-66c8-8000-cf367036eead', '1f0cf6ec-1a23-a7be-8e8f-c9dad7b09530', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('decided', '', '1f1e9566-27c8-6e55-8001-cec59dff531e', '50e62d13-16d4-7c08-7b99-54229c5fb74b', -3, '__interrupt__', 'msgpack', '\x91c80c1c0293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739185a46e616d65a3706179a46172677381a56575726f730dab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031337dac746f6f6c5f63616c6c5f6964a763616c6c2d3133a6646967657374d9203534306537333366333835613665333864333164383432653433643361356339ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9203865316433306239646461636161333733613932346132313931313433383161af726573706f6e73655f736368656d6183a5246465667387a6416374696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99f52756e207468652063616c6c2061732069742069732e0a0a417474726962757465733a0a2020202072656d656d6265723a20417070726f7665206c617465722063616c6c732061732077656c6c2e0a202020206469676573743a2054686520646967657374206f66207468652063616c6c207468617420697320617070726f7665643b2065616368206465636973696f6e206d61792068617665206f6e652eaa70726f7065727469657383a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a872656d656d62657281a424726566b0232f24646566732f52656d656d626572a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99952756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732c207769746820616c6c206f662069747320617267756d656e74732e204e6f7468696e67206973206d65726765642eaa70726f7065727469657383a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657383a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374a852656d656d62657286b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9e7417070726f7665206c617465722063616c6c73206f662074686520746f6f6c2061732077656c6c2e0a0a417474726962757465733a0a202020207365636f6e64733a20466f7220686f77206c6f6e672e0a202020207768656e3a204120636f6e646974696f6e206f6e20746865697220617267756d656e74733b20607b7d6020686f6c647320666f7220616e792e2044656661756c743a207468652073616d6520617267756d656e74732e0a202020207468726561643a204f6e6c7920696e2074686973207468726561642e0a2020202062793a2057686f20617070726f766573207468656d2eaa70726f7065727469657384a77365636f6e647382a57469746c65a75365636f6e6473a474797065a66e756d626572a47768656e83b46164646974696f6e616c50726f70657274696573c3a57469746c65a45768656ea474797065a66f626a656374a674687265616482a57469746c65a6546872656164a474797065a7626f6f6c65616ea2627982a57469746c65a24279a474797065a6737472696e67a8726571756972656491a77365636f6e6473a57469746c65a852656d656d626572a474797065a66f626a656374af526573706f6e644465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c3b20666f722061207175657374696f6e206f66206120746f6f6c206f72206120686f6f6b2c20616e79204a534f4e2076616c75652eaa70726f7065727469657383a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676581a57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9566-25b4-603f-8001-4280291f9483', '7dead835-a35b-dc50-94bb-bf26e3105d80', -4, '__resume__', 'msgpack', '\x9181a96465636973696f6e739182a474797065a7617070726f7665a6646967657374d9206664333136653137626664363236313036383266383731386463653437616233', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9566-25b4-603f-8001-4280291f9483', '7dead835-a35b-dc50-94bb-bf26e3105d80', 1, 'messages', 'msgpack', '\x91c8015a0594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746181ae72657669657765645f63616c6c7381b848756d616e496e5468654c6f6f704d6964646c657761726581a763616c6c2d3130d9206664333136653137626664363236313036383266383731386463653437616233a474797065a26169a46e616d65c0a26964d92872756e2d62353031643436322d666134652d343737362d386265302d666239363439366262373438aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('paid', '', '1f1e9566-25b4-603f-8001-4280291f9483', '7dead835-a35b-dc50-94bb-bf26e3105d80', 2, '__pregel_tasks', 'msgpack', '\xc74f0193af6c616e6767726170682e7479706573a453656e6492a5746f6f6c739184a46e616d65a3706179a46172677381a56575726f730aa26964a763616c6c2d3130a474797065a9746f6f6c5f63616c6c', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('held', '', '1f1e9566-28ad-6cd4-bfff-ecd72fdc03f0', '4f9a2d70-ea43-3c1d-20e0-e2430daa3722', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a6506179203134b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ac68656c643a20506179203134b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('held', '', '1f1e9566-28ad-6cd4-bfff-ecd72fdc03f0', '4f9a2d70-ea43-3c1d-20e0-e2430daa3722', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('paid', '', '1f1e9566-2a06-6f30-8002-cf16bf7032b1', 'cc5bf319-f184-8f38-8b3e-6741a7c8776d', 0, 'messages', 'msgpack', '\x91c7e00594bc6c616e67636861696e5f636f72652e6d657373616765732e746f6f6cab546f6f6c4d65737361676589a7636f6e74656e74a8506169642031302eb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a4746f6f6ca46e616d65a3706179a26964d92439313434353265312d303334332d346230332d383437362d643930316462376331316361ac746f6f6c5f63616c6c5f6964a763616c6c2d3130a86172746966616374c0a6737461747573a773756363657373b36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_push, 0000000000, 0000000000'),
	('paid', '', '1f1e9566-2a06-6f30-8002-cf16bf7032b1', 'cc5bf319-f184-8f38-8b3e-6741a7c8776d', 1, 'branch:to:model', 'null', '\x', '~__pregel_push, 0000000000, 0000000000'),
	('held', '', '1f1e9566-28b3-6c2d-8000-ef6532353bcf', '338864f1-ae4a-e600-2cf7-64e450eb5258', 0, 'messages', 'msgpack', '\x91c801060594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74a0b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d39346663336535362d653662382d343765332d383234632d333762353439376435353065aa746f6f6c5f63616c6c739184a46e616d65a3706179a46172677381a56575726f730ea26964a763616c6c2d3134a474797065a9746f6f6c5f63616c6cb2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('held', '', '1f1e9566-28b3-6c2d-8000-ef6532353bcf', '338864f1-ae4a-e600-2cf7-64e450eb5258', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('held', '', '1f1e9566-28b3-6c2d-8000-ef6532353bcf', '338864f1-ae4a-e600-2cf7-64e450eb5258', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('paid', '', '1f1e9566-2a3f-6593-8003-3e988fc89352', '597ff173-ee4f-a236-422e-853e5ad8a353', 0, 'messages', 'msgpack', '\x91c7e10594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ac446f6e653a20506179203130b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d36613832323631652d306533622d343931382d626532652d333463396536653635396135aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('paid', '', '1f1e9566-2a3f-6593-8003-3e988fc89352', '597ff173-ee4f-a236-422e-853e5ad8a353', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('paid', '', '1f1e9566-2a3f-6593-8003-3e988fc89352', '597ff173-ee4f-a236-422e-853e5ad8a353', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('passed', '', '1f1e9566-2cb6-6bc6-bfff-7a8c2d858d66', '39935d11-b023-7483-46f1-a3977f05b6c9', 0, 'messages', 'msgpack', '\x91c7970594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a548656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ad7061737365643a2048656c6c6fb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('passed', '', '1f1e9566-2cb6-6bc6-bfff-7a8c2d858d66', '39935d11-b023-7483-46f1-a3977f05b6c9', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__'),
	('passed', '', '1f1e9566-2cc0-6253-8000-9087203ab7b2', '8f1d723c-47fc-ba51-2f02-379680bcc5a2', 0, 'messages', 'msgpack', '\x91c7e00594ba6c616e67636861696e5f636f72652e6d657373616765732e6169a941494d65737361676589a7636f6e74656e74ab446f6e653a2048656c6c6fb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a26169a46e616d65c0a26964d92872756e2d63393130326631392d346232352d346261642d393938642d323837633966323463303066aa746f6f6c5f63616c6c7390b2696e76616c69645f746f6f6c5f63616c6c7390ae75736167655f6d65746164617461c0b36d6f64656c5f76616c69646174655f6a736f6e', ''),
	('passed', '', '1f1e9566-2cc0-6253-8000-9087203ab7b2', '8f1d723c-47fc-ba51-2f02-379680bcc5a2', 1, 'loop_last_node', 'msgpack', '\xa56d6f64656c', ''),
	('passed', '', '1f1e9566-2cc0-6253-8000-9087203ab7b2', '8f1d723c-47fc-ba51-2f02-379680bcc5a2', 2, 'branch:to:HumanInTheLoopMiddleware.after_model', 'null', '\x', ''),
	('held', '', '1f1e9566-28d5-6b93-8001-aaa350e65cac', 'b17734b4-713c-2fb3-846a-1db14653d2ea', -3, '__interrupt__', 'msgpack', '\x91c80c1c0293af6c616e6767726170682e7479706573a9496e7465727275707483a576616c756582af616374696f6e5f72657175657374739185a46e616d65a3706179a46172677381a56575726f730eab6465736372697074696f6ed93f546f6f6c20657865637574696f6e20726571756972657320617070726f76616c0a0a546f6f6c3a207061790a417267733a207b226575726f73223a2031347dac746f6f6c5f63616c6c5f6964a763616c6c2d3134a6646967657374d9206139393664333563396138316136323233623135363333326433373134353566ae7265766965775f636f6e666967739182ab616374696f6e5f6e616d65a3706179b1616c6c6f7765645f6465636973696f6e7394a7617070726f7665a465646974a672656a656374a7726573706f6e64a26964d9203361383032616163636261306434333664656264626639386339663939663239af726573706f6e73655f736368656d6183a5246465667387a6416374696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9344120746f6f6c2063616c6c3a20746865206e616d65206f662074686520746f6f6c20616e642069747320617267756d656e74732eaa70726f7065727469657382a46e616d6582a57469746c65a44e616d65a474797065a6737472696e67a46172677383b46164646974696f6e616c50726f70657274696573c3a57469746c65a441726773a474797065a66f626a656374a8726571756972656492a46e616d65a461726773a57469746c65a6416374696f6ea474797065a66f626a656374af417070726f76654465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99f52756e207468652063616c6c2061732069742069732e0a0a417474726962757465733a0a2020202072656d656d6265723a20417070726f7665206c617465722063616c6c732061732077656c6c2e0a202020206469676573743a2054686520646967657374206f66207468652063616c6c207468617420697320617070726f7665643b2065616368206465636973696f6e206d61792068617665206f6e652eaa70726f7065727469657383a47479706583a5636f6e7374a7617070726f7665a57469746c65a454797065a474797065a6737472696e67a872656d656d62657281a424726566b0232f24646566732f52656d656d626572a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65af417070726f76654465636973696f6ea474797065a66f626a656374ac456469744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed99952756e20616e6f746865722063616c6c20696e73746561642c20616e64207265706f7274207468617420746f20746865206d6f64656c2e0a0a417474726962757465733a0a202020206564697465645f616374696f6e3a205468652063616c6c20746861742072756e732c207769746820616c6c206f662069747320617267756d656e74732e204e6f7468696e67206973206d65726765642eaa70726f7065727469657383a47479706583a5636f6e7374a465646974a57469746c65a454797065a474797065a6737472696e67ad6564697465645f616374696f6e81a424726566ae232f24646566732f416374696f6ea664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065ad6564697465645f616374696f6ea57469746c65ac456469744465636973696f6ea474797065a66f626a656374ac4849544c526573706f6e736585ab6465736372697074696f6ed95354686520616e7377657220746f2061204849544c526571756573743a2061206465636973696f6e20666f722065616368206f662069747320616374696f6e732c20696e207468652073616d65206f726465722eaa70726f7065727469657381a96465636973696f6e7383a56974656d7382ad6469736372696d696e61746f7282a76d617070696e6784a7617070726f7665b7232f24646566732f417070726f76654465636973696f6ea465646974b4232f24646566732f456469744465636973696f6ea672656a656374b6232f24646566732f52656a6563744465636973696f6ea7726573706f6e64b7232f24646566732f526573706f6e644465636973696f6eac70726f70657274794e616d65a474797065a56f6e654f669481a424726566b7232f24646566732f417070726f76654465636973696f6e81a424726566b4232f24646566732f456469744465636973696f6e81a424726566b6232f24646566732f52656a6563744465636973696f6e81a424726566b7232f24646566732f526573706f6e644465636973696f6ea57469746c65a94465636973696f6e73a474797065a56172726179a8726571756972656491a96465636973696f6e73a57469746c65ac4849544c526573706f6e7365a474797065a66f626a656374ae52656a6563744465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981446f206e6f742072756e207468652063616c6c2e0a0a417474726962757465733a0a202020206d6573736167653a205768617420746865206d6f64656c2072656164733b2064656661756c743a2061207465787420746861742073617973207468617420612072657669657765722072656a6563746564207468652063616c6c2eaa70726f7065727469657383a47479706583a5636f6e7374a672656a656374a57469746c65a454797065a474797065a6737472696e67a76d65737361676582a5616e794f669281a474797065a6737472696e6781a474797065a46e756c6ca57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656491a474797065a57469746c65ae52656a6563744465636973696f6ea474797065a66f626a656374a852656d656d62657286b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed9e7417070726f7665206c617465722063616c6c73206f662074686520746f6f6c2061732077656c6c2e0a0a417474726962757465733a0a202020207365636f6e64733a20466f7220686f77206c6f6e672e0a202020207768656e3a204120636f6e646974696f6e206f6e20746865697220617267756d656e74733b20607b7d6020686f6c647320666f7220616e792e2044656661756c743a207468652073616d6520617267756d656e74732e0a202020207468726561643a204f6e6c7920696e2074686973207468726561642e0a2020202062793a2057686f20617070726f766573207468656d2eaa70726f7065727469657384a77365636f6e647382a57469746c65a75365636f6e6473a474797065a66e756d626572a47768656e83b46164646974696f6e616c50726f70657274696573c3a57469746c65a45768656ea474797065a66f626a656374a674687265616482a57469746c65a6546872656164a474797065a7626f6f6c65616ea2627982a57469746c65a24279a474797065a6737472696e67a8726571756972656491a77365636f6e6473a57469746c65a852656d656d626572a474797065a66f626a656374af526573706f6e644465636973696f6e86b46164646974696f6e616c50726f70657274696573c2ab6465736372697074696f6ed981416e7377657220696e7374656164206f662074686520746f6f6c2e0a0a417474726962757465733a0a202020206d6573736167653a2054686520726573756c74206f66207468652063616c6c3b20666f722061207175657374696f6e206f66206120746f6f6c206f72206120686f6f6b2c20616e79204a534f4e2076616c75652eaa70726f7065727469657383a47479706583a5636f6e7374a7726573706f6e64a57469746c65a454797065a474797065a6737472696e67a76d65737361676581a57469746c65a74d657373616765a664696765737482a57469746c65a6446967657374a474797065a6737472696e67a8726571756972656492a474797065a76d657373616765a57469746c65af526573706f6e644465636973696f6ea474797065a66f626a656374a424726566b4232f24646566732f4849544c526573706f6e7365a57469746c65ac4849544c526573706f6e7365', '~__pregel_pull, HumanInTheLoopMiddleware.after_model'),
	('running', '', '1f1e9566-2c1a-6080-bfff-297c1d93d6d7', 'a932c0ab-c179-86c6-c0a5-25f42cfb0280', 0, 'messages', 'msgpack', '\x91c7980594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a7636f6e74656e74a5426c6f636bb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964ae72756e6e696e673a20426c6f636bb36d6f64656c5f76616c69646174655f6a736f6e', '~__pregel_pull, __start__'),
	('running', '', '1f1e9566-2c1a-6080-bfff-297c1d93d6d7', 'a932c0ab-c179-86c6-c0a5-25f42cfb0280', 1, 'branch:to:model', 'null', '\x', '~__pregel_pull, __start__');

INSERT INTO public.checkpoints VALUES
	('done', '', '1f1e9566-246d-6a5c-bfff-a3335946854e', NULL, NULL, '{"v": 4, "id": "1f1e9566-246d-6a5c-bfff-a3335946854e", "ts": "2026-11-26T05:01:05.046579+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.48758279793582426"}, "updated_channels": ["__start__"]}', '{"step": -1, "order": 7, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/1831122888132644887", "agent_factory_run": "d064dfa93643de939083be9c74afaac0", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('done', '', '1f1e9566-247d-6e44-8000-d31e6018d21f', '1f1e9566-246d-6a5c-bfff-a3335946854e', NULL, '{"v": 4, "id": "1f1e9566-247d-6e44-8000-d31e6018d21f", "ts": "2026-11-26T05:01:05.053227+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.48758279793582426"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.8558592216015953", "__start__": "00000000000000000000000000000002.0.8558592216015953", "branch:to:model": "00000000000000000000000000000002.0.8558592216015953"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "order": 7, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/1831122888132644887", "agent_factory_run": "d064dfa93643de939083be9c74afaac0", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('done', '', '1f1e9566-24ac-6d05-8001-c247fa57820c', '1f1e9566-247d-6e44-8000-d31e6018d21f', NULL, '{"v": 4, "id": "1f1e9566-24ac-6d05-8001-c247fa57820c", "ts": "2026-11-26T05:01:05.072396+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.8558592216015953"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.48758279793582426"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000003.0.579855683275073", "__start__": "00000000000000000000000000000002.0.8558592216015953", "loop_last_node": "00000000000000000000000000000003.0.579855683275073", "branch:to:model": "00000000000000000000000000000003.0.579855683275073"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 1, "order": 7, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "done/1831122888132644887", "agent_factory_run": "d064dfa93643de939083be9c74afaac0", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('paid', '', '1f1e9566-258d-6ab5-bfff-94a3fd26dd03', NULL, NULL, '{"v": 4, "id": "1f1e9566-258d-6ab5-bfff-94a3fd26dd03", "ts": "2026-11-26T05:01:05.164554+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.565602771033002"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/2817085689161406016", "agent_factory_run": "d9de05041e9b6bf7cf2b014152d9470e", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('paid', '', '1f1e9566-2592-6ab1-8000-299b323d6ec5', '1f1e9566-258d-6ab5-bfff-94a3fd26dd03', NULL, '{"v": 4, "id": "1f1e9566-2592-6ab1-8000-299b323d6ec5", "ts": "2026-11-26T05:01:05.166599+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.565602771033002"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.5853765122020497", "__start__": "00000000000000000000000000000002.0.5853765122020497", "branch:to:model": "00000000000000000000000000000002.0.5853765122020497"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/2817085689161406016", "agent_factory_run": "d9de05041e9b6bf7cf2b014152d9470e", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('paid', '', '1f1e9566-25b4-603f-8001-4280291f9483', '1f1e9566-2592-6ab1-8000-299b323d6ec5', NULL, '{"v": 4, "id": "1f1e9566-25b4-603f-8001-4280291f9483", "ts": "2026-11-26T05:01:05.180249+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.5853765122020497"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.565602771033002"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.021003170007428018", "__start__": "00000000000000000000000000000002.0.5853765122020497", "loop_last_node": "00000000000000000000000000000003.0.021003170007428018", "branch:to:model": "00000000000000000000000000000003.0.021003170007428018", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/2817085689161406016", "agent_factory_run": "d9de05041e9b6bf7cf2b014152d9470e", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('review', '', '1f1e9566-2686-6cd0-bfff-a0bab1b10357', NULL, NULL, '{"v": 4, "id": "1f1e9566-2686-6cd0-bfff-a0bab1b10357", "ts": "2026-11-26T05:01:05.266601+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.7729215086585668"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/3461641969148248552", "agent_factory_run": "d05cb7168cdd3960677083e692cc5015", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('decided', '', '1f1e9566-2794-6294-bfff-789e34f33128', NULL, NULL, '{"v": 4, "id": "1f1e9566-2794-6294-bfff-789e34f33128", "ts": "2026-11-26T05:01:05.376930+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.3419484193945428"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/76773351072938037", "agent_factory_run": "8204acbb1e37a4993036dbd7f3f952ee", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('review', '', '1f1e9566-268f-6205-8000-a824d506e026', '1f1e9566-2686-6cd0-bfff-a0bab1b10357', NULL, '{"v": 4, "id": "1f1e9566-268f-6205-8000-a824d506e026", "ts": "2026-11-26T05:01:05.270006+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7729215086585668"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.7076314596455309", "__start__": "00000000000000000000000000000002.0.7076314596455309", "branch:to:model": "00000000000000000000000000000002.0.7076314596455309"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/3461641969148248552", "agent_factory_run": "d05cb7168cdd3960677083e692cc5015", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('review', '', '1f1e9566-26b6-60b8-8001-8259d77ef202', '1f1e9566-268f-6205-8000-a824d506e026', NULL, '{"v": 4, "id": "1f1e9566-26b6-60b8-8001-8259d77ef202", "ts": "2026-11-26T05:01:05.285939+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.7076314596455309"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.7729215086585668"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.8172791019341824", "__start__": "00000000000000000000000000000002.0.7076314596455309", "loop_last_node": "00000000000000000000000000000003.0.8172791019341824", "branch:to:model": "00000000000000000000000000000003.0.8172791019341824", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.8172791019341824"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "review/3461641969148248552", "agent_factory_run": "d05cb7168cdd3960677083e692cc5015", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('decided', '', '1f1e9566-27b1-66c8-8000-cf367036eead', '1f1e9566-2794-6294-bfff-789e34f33128', NULL, '{"v": 4, "id": "1f1e9566-27b1-66c8-8000-cf367036eead", "ts": "2026-11-26T05:01:05.388906+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.3419484193945428"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.43476855907835865", "__start__": "00000000000000000000000000000002.0.43476855907835865", "branch:to:model": "00000000000000000000000000000002.0.43476855907835865"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/76773351072938037", "agent_factory_run": "8204acbb1e37a4993036dbd7f3f952ee", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('decided', '', '1f1e9566-27c8-6e55-8001-cec59dff531e', '1f1e9566-27b1-66c8-8000-cf367036eead', NULL, '{"v": 4, "id": "1f1e9566-27c8-6e55-8001-cec59dff531e", "ts": "2026-11-26T05:01:05.398519+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.43476855907835865"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.3419484193945428"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.6075313295556493", "__start__": "00000000000000000000000000000002.0.43476855907835865", "loop_last_node": "00000000000000000000000000000003.0.6075313295556493", "branch:to:model": "00000000000000000000000000000003.0.6075313295556493", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.6075313295556493"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "decided/76773351072938037", "agent_factory_run": "8204acbb1e37a4993036dbd7f3f952ee", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('held', '', '1f1e9566-28ad-6cd4-bfff-ecd72fdc03f0', NULL, NULL, '{"v": 4, "id": "1f1e9566-28ad-6cd4-bfff-ecd72fdc03f0", "ts": "2026-11-26T05:01:05.492289+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.8169501339777551"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/1271544744341818552", "agent_factory_run": "778b6f5de5773d356f0e0a506cf8079f", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('held', '', '1f1e9566-28b3-6c2d-8000-ef6532353bcf', '1f1e9566-28ad-6cd4-bfff-ecd72fdc03f0', NULL, '{"v": 4, "id": "1f1e9566-28b3-6c2d-8000-ef6532353bcf", "ts": "2026-11-26T05:01:05.494726+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8169501339777551"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.987535164102153", "__start__": "00000000000000000000000000000002.0.987535164102153", "branch:to:model": "00000000000000000000000000000002.0.987535164102153"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/1271544744341818552", "agent_factory_run": "778b6f5de5773d356f0e0a506cf8079f", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('held', '', '1f1e9566-28d5-6b93-8001-aaa350e65cac', '1f1e9566-28b3-6c2d-8000-ef6532353bcf', NULL, '{"v": 4, "id": "1f1e9566-28d5-6b93-8001-aaa350e65cac", "ts": "2026-11-26T05:01:05.508632+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.987535164102153"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8169501339777551"}}, "channel_values": {"loop_last_node": "model", "branch:to:HumanInTheLoopMiddleware.after_model": null}, "channel_versions": {"messages": "00000000000000000000000000000003.0.7001613681023844", "__start__": "00000000000000000000000000000002.0.987535164102153", "loop_last_node": "00000000000000000000000000000003.0.7001613681023844", "branch:to:model": "00000000000000000000000000000003.0.7001613681023844", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.7001613681023844"}, "updated_channels": ["branch:to:HumanInTheLoopMiddleware.after_model", "loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "held/1271544744341818552", "agent_factory_run": "778b6f5de5773d356f0e0a506cf8079f", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}'),
	('paid', '', '1f1e9566-2a06-6f30-8002-cf16bf7032b1', '1f1e9566-25b4-603f-8001-4280291f9483', NULL, '{"v": 4, "id": "1f1e9566-2a06-6f30-8002-cf16bf7032b1", "ts": "2026-11-26T05:01:05.633651+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.5853765122020497"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.565602771033002"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.021003170007428018", "__start__": "00000000000000000000000000000002.0.5853765122020497", "loop_last_node": "00000000000000000000000000000003.0.021003170007428018", "branch:to:model": "00000000000000000000000000000003.0.021003170007428018", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}}, "channel_values": {"loop_last_node": "model"}, "channel_versions": {"messages": "00000000000000000000000000000004.0.6318106460531799", "__start__": "00000000000000000000000000000002.0.5853765122020497", "__pregel_tasks": "00000000000000000000000000000004.0.6318106460531799", "loop_last_node": "00000000000000000000000000000003.0.021003170007428018", "branch:to:model": "00000000000000000000000000000003.0.021003170007428018", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.6318106460531799"}, "updated_channels": ["__pregel_tasks", "messages"]}', '{"step": 2, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/2817085689161406017", "agent_factory_run": "d9de05041e9b6bf7cf2b014152d9470e", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [3, 4]}}'),
	('paid', '', '1f1e9566-2a3f-6593-8003-3e988fc89352', '1f1e9566-2a06-6f30-8002-cf16bf7032b1', NULL, '{"v": 4, "id": "1f1e9566-2a3f-6593-8003-3e988fc89352", "ts": "2026-11-26T05:01:05.656754+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.5853765122020497"}, "tools": {}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.565602771033002"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.021003170007428018", "__start__": "00000000000000000000000000000002.0.5853765122020497", "loop_last_node": "00000000000000000000000000000003.0.021003170007428018", "branch:to:model": "00000000000000000000000000000003.0.021003170007428018", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}}, "channel_values": {"loop_last_node": "model", "branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000005.0.14386944317521966", "__start__": "00000000000000000000000000000002.0.5853765122020497", "__pregel_tasks": "00000000000000000000000000000005.0.14386944317521966", "loop_last_node": "00000000000000000000000000000003.0.021003170007428018", "branch:to:model": "00000000000000000000000000000005.0.14386944317521966", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.6318106460531799"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 3, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/2817085689161406017", "agent_factory_run": "d9de05041e9b6bf7cf2b014152d9470e", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [4, 5]}}'),
	('paid', '', '1f1e9566-2a51-6dcc-8004-34cb0423ae98', '1f1e9566-2a3f-6593-8003-3e988fc89352', NULL, '{"v": 4, "id": "1f1e9566-2a51-6dcc-8004-34cb0423ae98", "ts": "2026-11-26T05:01:05.664339+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000005.0.14386944317521966"}, "tools": {}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.565602771033002"}, "__interrupt__": {"messages": "00000000000000000000000000000003.0.021003170007428018", "__start__": "00000000000000000000000000000002.0.5853765122020497", "loop_last_node": "00000000000000000000000000000003.0.021003170007428018", "branch:to:model": "00000000000000000000000000000003.0.021003170007428018", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}, "HumanInTheLoopMiddleware.after_model": {"branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000003.0.021003170007428018"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000006.0.8465773619589301", "__start__": "00000000000000000000000000000002.0.5853765122020497", "__pregel_tasks": "00000000000000000000000000000005.0.14386944317521966", "loop_last_node": "00000000000000000000000000000006.0.8465773619589301", "branch:to:model": "00000000000000000000000000000006.0.8465773619589301", "branch:to:HumanInTheLoopMiddleware.after_model": "00000000000000000000000000000004.0.6318106460531799"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 4, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "paid/2817085689161406017", "agent_factory_run": "d9de05041e9b6bf7cf2b014152d9470e", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [5, 6]}}'),
	('running', '', '1f1e9566-2c1a-6080-bfff-297c1d93d6d7', NULL, NULL, '{"v": 4, "id": "1f1e9566-2c1a-6080-bfff-297c1d93d6d7", "ts": "2026-11-26T05:01:05.851194+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.8120111776009424"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "running/4241104611733866393", "agent_factory_run": "fd8884acf8cb7a69292ca3c2ea8c76e2", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('running', '', '1f1e9566-2c26-67f9-8000-b409bd1f9899', '1f1e9566-2c1a-6080-bfff-297c1d93d6d7', NULL, '{"v": 4, "id": "1f1e9566-2c26-67f9-8000-b409bd1f9899", "ts": "2026-11-26T05:01:05.856296+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8120111776009424"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.42311847835508254", "__start__": "00000000000000000000000000000002.0.42311847835508254", "branch:to:model": "00000000000000000000000000000002.0.42311847835508254"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "running/4241104611733866393", "agent_factory_run": "fd8884acf8cb7a69292ca3c2ea8c76e2", "agent_factory_agent": "desk", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('passed', '', '1f1e9566-2cb6-6bc6-bfff-7a8c2d858d66', NULL, NULL, '{"v": 4, "id": "1f1e9566-2cb6-6bc6-bfff-7a8c2d858d66", "ts": "2026-11-26T05:01:05.915379+00:00", "versions_seen": {"__input__": {}}, "channel_values": {}, "channel_versions": {"__start__": "00000000000000000000000000000001.0.8190406640096963"}, "updated_channels": ["__start__"]}', '{"step": -1, "source": "input", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "passed/3737573019856294801", "agent_factory_run": "624e144f9819e414ae38a5b9a3663835", "agent_factory_agent": "new", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [0, 1]}}'),
	('passed', '', '1f1e9566-2cc0-6253-8000-9087203ab7b2', '1f1e9566-2cb6-6bc6-bfff-7a8c2d858d66', NULL, '{"v": 4, "id": "1f1e9566-2cc0-6253-8000-9087203ab7b2", "ts": "2026-11-26T05:01:05.919229+00:00", "versions_seen": {"__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8190406640096963"}}, "channel_values": {"branch:to:model": null}, "channel_versions": {"messages": "00000000000000000000000000000002.0.5390447652603259", "__start__": "00000000000000000000000000000002.0.5390447652603259", "branch:to:model": "00000000000000000000000000000002.0.5390447652603259"}, "updated_channels": ["branch:to:model", "messages"]}', '{"step": 0, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "passed/3737573019856294801", "agent_factory_run": "624e144f9819e414ae38a5b9a3663835", "agent_factory_agent": "new", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [1, 2]}}'),
	('passed', '', '1f1e9566-2d0f-6497-8001-63687eb73262', '1f1e9566-2cc0-6253-8000-9087203ab7b2', NULL, '{"v": 4, "id": "1f1e9566-2d0f-6497-8001-63687eb73262", "ts": "2026-11-26T05:01:05.951636+00:00", "versions_seen": {"model": {"branch:to:model": "00000000000000000000000000000002.0.5390447652603259"}, "__input__": {}, "__start__": {"__start__": "00000000000000000000000000000001.0.8190406640096963"}}, "channel_values": {"loop_last_node": "HumanInTheLoopMiddleware.after_model"}, "channel_versions": {"messages": "00000000000000000000000000000003.0.5696736881220396", "__start__": "00000000000000000000000000000002.0.5390447652603259", "loop_last_node": "00000000000000000000000000000003.0.5696736881220396", "branch:to:model": "00000000000000000000000000000003.0.5696736881220396"}, "updated_channels": ["loop_last_node", "messages"]}', '{"step": 1, "source": "loop", "parents": {}, "ls_integration": "agent_factory", "agent_factory_job": "passed/3737573019856294801", "agent_factory_run": "624e144f9819e414ae38a5b9a3663835", "agent_factory_agent": "new", "agent_factory_tenant": "acme", "counters_since_delta_snapshot": {"messages": [2, 3]}}');

INSERT INTO public.service_audit VALUES
	(1, 1795669265.545742, 'acme', 'paid', '9eca4098b9aeae63', 'ann', 'approve', '{"decision": {"type": "approve", "digest": "fd316e17bfd62610682f8718dce47ab3"}, "call": {"id": "call-10", "name": "pay", "args": {"euros": 10}}, "runs": {"name": "pay", "args": {"euros": 10}}, "via": "python"}', '1ff4505026286db026f1265bb0f5815b1b54ebed5b7d926c5d20f553faa643c9'),
	(2, 1795669265.701559, 'acme', 'review', 'a83e9412cf9d70ba', 'ann', 'claim', NULL, '2c338b65ed6778bf775b1cb4418e9d400b8affe4055877a4be099e722fe56286'),
	(3, 1795669265.874166, 'acme', 'decided', '873136d67bac14b0', 'ann', 'approve', '{"decision": {"type": "approve", "digest": "540e733f385a6e38d31d842e43d3a5c9"}, "call": {"id": "call-13", "name": "pay", "args": {"euros": 13}}, "runs": {"name": "pay", "args": {"euros": 13}}, "via": "python"}', '6b45108648b3ebc3e7af344dc9550008ef9cbdd286e20ff8b6619268c3fa711b');

INSERT INTO public.service_effects VALUES
	(1, '1257ede61d643873acfcd338841909d4', 'd9de05041e9b6bf7cf2b014152d9470e', 'pay', '\x9181a56575726f730a', '2b592ff411914508b2ab6183456633ee', '2026-11-26T05:01:05+00:00', '\x91c7bb0594bc6c616e67636861696e5f636f72652e6d657373616765732e746f6f6cab546f6f6c4d65737361676589a7636f6e74656e74a8506169642031302eb16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180a474797065a4746f6f6ca46e616d65a3706179a26964c0ac746f6f6c5f63616c6c5f6964a763616c6c2d3130a86172746966616374c0a6737461747573a773756363657373b36d6f64656c5f76616c69646174655f6a736f6e');

INSERT INTO public.service_limits VALUES
	('acme', 1, NULL);

INSERT INTO public.service_questions VALUES
	('paid', 'paid/2817085689161406016', 'b885dbab622f1174f5a5e0a07efea519'),
	('review', 'review/3461641969148248552', 'c18413364aab358c4838dd8ef97a0b26'),
	('decided', 'decided/76773351072938037', '8e1d30b9ddacaa373a924a219114381a'),
	('held', 'held/1271544744341818552', '3a802aaccba0d436debdbf98c9f99f29');

INSERT INTO public.service_runs VALUES
	(1, '624e144f9819e414ae38a5b9a3663835', 'passed', 'acme', 'new', 0, '{"kind": "message", "run": "624e144f9819e414ae38a5b9a3663835", "thread": "passed", "tenant": "acme", "agent": "new", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUhlbGxvsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK1wYXNzZWQ6IEhlbGxvs21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'done', 'passed/3737573019856294801', '1f1e9566-2d0f-6497-8001-63687eb73262', '{}', '[{"agent": "new", "part": "model", "model": "ScriptedChatModel", "calls": 1, "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "usd": 0.0}]', NULL, 1795669264.715125),
	(2, 'd064dfa93643de939083be9c74afaac0', 'done', 'acme', 'desk', 0, '{"kind": "message", "run": "d064dfa93643de939083be9c74afaac0", "thread": "done", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceVBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUhlbGxvsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZKtkb25lOiBIZWxsb7Ntb2RlbF92YWxpZGF0ZV9qc29u", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'done', 'done/1831122888132644887', '1f1e9566-24ac-6d05-8001-c247fa57820c', '{"order": 7}', '[{"agent": "desk", "part": "model", "model": "ScriptedChatModel", "calls": 1, "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "usd": 0.0}]', NULL, 1795669264.779663),
	(9, '96cb226a9722471724ee1432eedbaa4f', 'running', 'acme', 'desk', 0, '{"kind": "message", "run": "96cb226a9722471724ee1432eedbaa4f", "thread": "running", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceYBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUFmdGVysWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK5ydW5uaW5nOiBBZnRlcrNtb2RlbF92YWxpZGF0ZV9qc29u", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'queued', NULL, NULL, '{}', '[]', NULL, 1795669265.866528),
	(5, '8204acbb1e37a4993036dbd7f3f952ee', 'decided', 'acme', 'desk', 0, '{"kind": "message", "run": "8204acbb1e37a4993036dbd7f3f952ee", "thread": "decided", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceaBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxM7FhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSvZGVjaWRlZDogUGF5IDEzs21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'queued', 'decided/76773351072938038', '1f1e9566-27c8-6e55-8001-cec59dff531e', '{}', '[{"agent": "desk", "part": "model", "model": "ScriptedChatModel", "calls": 1, "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "usd": 0.0}]', NULL, 1795669265.320373),
	(11, '8ec42e7f5f1573186188f76b4382df5c', 'queued', 'acme', 'desk', 0, '{"kind": "message", "run": "8ec42e7f5f1573186188f76b4382df5c", "thread": "queued", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceZBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plNlY29uZLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSucXVldWVkOiBTZWNvbmSzbW9kZWxfdmFsaWRhdGVfanNvbg==", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'queued', NULL, NULL, '{}', '[]', NULL, 1795669265.906257),
	(4, 'd05cb7168cdd3960677083e692cc5015', 'review', 'acme', 'desk', 0, '{"kind": "message", "run": "d05cb7168cdd3960677083e692cc5015", "thread": "review", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceZBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxMrFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSucmV2aWV3OiBQYXkgMTKzbW9kZWxfdmFsaWRhdGVfanNvbg==", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'waiting', 'review/3461641969148248552', '1f1e9566-26b6-60b8-8001-8259d77ef202', '{}', '[{"agent": "desk", "part": "model", "model": "ScriptedChatModel", "calls": 1, "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "usd": 0.0}]', NULL, 1795669265.215856),
	(7, '806fb923a83ec2409873341e287e6c88', 'held', 'acme', 'desk', 0, '{"kind": "message", "run": "806fb923a83ec2409873341e287e6c88", "thread": "held", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plRoYW5rc7FhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSsaGVsZDogVGhhbmtzs21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'queued', NULL, NULL, '{}', '[]', NULL, 1795669265.694968),
	(6, '778b6f5de5773d356f0e0a506cf8079f', 'held', 'acme', 'desk', 0, '{"kind": "message", "run": "778b6f5de5773d356f0e0a506cf8079f", "thread": "held", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxNLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSsaGVsZDogUGF5IDE0s21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'waiting', 'held/1271544744341818552', '1f1e9566-28d5-6b93-8001-aaa350e65cac', '{}', '[{"agent": "desk", "part": "model", "model": "ScriptedChatModel", "calls": 1, "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "usd": 0.0}]', NULL, 1795669265.418821),
	(8, 'fd8884acf8cb7a69292ca3c2ea8c76e2', 'running', 'acme', 'desk', 0, '{"kind": "message", "run": "fd8884acf8cb7a69292ca3c2ea8c76e2", "thread": "running", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceYBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUJsb2NrsWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK5ydW5uaW5nOiBCbG9ja7Ntb2RlbF92YWxpZGF0ZV9qc29u", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'running', 'running/4241104611733866393', NULL, '{}', '[]', NULL, 1795669265.70957),
	(12, '5fbae3d706e6cd1cc7c01a1d80fa3c0c', 'later', 'acme', 'desk', 0, '{"kind": "message", "run": "5fbae3d706e6cd1cc7c01a1d80fa3c0c", "thread": "later", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceWBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUxhdGVysWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZKxsYXRlcjogTGF0ZXKzbW9kZWxfdmFsaWRhdGVfanNvbg==", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null, "begins_at": 2795669265.910038}', 'queued', 'later/489307549771930083', NULL, '{}', '[]', NULL, 1795669265.912827),
	(3, 'd9de05041e9b6bf7cf2b014152d9470e', 'paid', 'acme', 'desk', 0, '{"kind": "message", "run": "d9de05041e9b6bf7cf2b014152d9470e", "thread": "paid", "tenant": "acme", "agent": "desk", "priority": 0, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50plBheSAxMLFhZGRpdGlvbmFsX2t3YXJnc4CxcmVzcG9uc2VfbWV0YWRhdGGApHR5cGWlaHVtYW6kbmFtZcCiaWSscGFpZDogUGF5IDEws21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": null, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'done', 'paid/2817085689161406017', '1f1e9566-2a51-6dcc-8004-34cb0423ae98', '{}', '[{"agent": "desk", "part": "model", "model": "ScriptedChatModel", "calls": 2, "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "usd": 0.0}]', NULL, 1795669265.100379),
	(10, 'd08e065c76cf508730b45bd11e39f62f', 'queued', 'acme', 'desk', 5, '{"kind": "message", "run": "d08e065c76cf508730b45bd11e39f62f", "thread": "queued", "tenant": "acme", "agent": "desk", "priority": 5, "trace": null, "input": "bXNncGFjayCBqG1lc3NhZ2VzkceXBZS9bGFuZ2NoYWluX2NvcmUubWVzc2FnZXMuaHVtYW6sSHVtYW5NZXNzYWdlhqdjb250ZW50pUZpcnN0sWFkZGl0aW9uYWxfa3dhcmdzgLFyZXNwb25zZV9tZXRhZGF0YYCkdHlwZaVodW1hbqRuYW1lwKJpZK1xdWV1ZWQ6IEZpcnN0s21vZGVsX3ZhbGlkYXRlX2pzb24=", "checkpoint": null, "context": {"user": "ann"}, "config": {"configurable": {}}, "stream": null, "subgraphs": true, "interrupt_before": null, "interrupt_after": null}', 'queued', 'queued/3021605540507903985', NULL, '{}', '[]', NULL, 1795669265.87962);

INSERT INTO public.service_threads VALUES
	('done', 'acme', 'desk', 'idle', 3864912808121148637, NULL, 'd064dfa93643de939083be9c74afaac0', 1831122888132644887, 'f913f066c7b29127', 'Hello', '{}', NULL, 1795669264.77663, 1795669265.086654),
	('review', 'acme', 'desk', 'waiting', 861986752086812305, NULL, 'd05cb7168cdd3960677083e692cc5015', 3461641969148248552, 'f913f066c7b29127', 'Pay 12', '{}', NULL, 1795669265.214548, 1795669265.310014),
	('held', 'acme', 'desk', 'waiting', 4533388801274513028, NULL, '778b6f5de5773d356f0e0a506cf8079f', 1271544744341818552, 'f913f066c7b29127', 'Pay 14', '{}', NULL, 1795669265.417783, 1795669265.527937),
	('paid', 'acme', 'desk', 'idle', 894096160153605413, NULL, 'd9de05041e9b6bf7cf2b014152d9470e', 2817085689161406017, 'f913f066c7b29127', 'Pay 10', '{}', NULL, 1795669265.098892, 1795669265.671829),
	('running', 'acme', 'desk', 'running', 4399829120920570641, 'vm-21101-f2a9b8cd', 'fd8884acf8cb7a69292ca3c2ea8c76e2', 4241104611733866393, 'f913f066c7b29127', 'Block', '{}', NULL, 1795669265.708311, 1795669265.838496),
	('decided', 'acme', 'desk', 'queued', 2806639595154386592, NULL, '8204acbb1e37a4993036dbd7f3f952ee', 76773351072938038, 'f913f066c7b29127', 'Pay 13', '{}', NULL, 1795669265.319261, 1795669265.872033),
	('queued', 'acme', 'desk', 'queued', 37115360240800092, NULL, 'd08e065c76cf508730b45bd11e39f62f', 3021605540507903985, NULL, 'First', '{}', NULL, 1795669265.877881, 1795669265.881083),
	('later', 'acme', 'desk', 'queued', 4441065186150884446, NULL, '5fbae3d706e6cd1cc7c01a1d80fa3c0c', 489307549771930083, NULL, 'Later', '{}', NULL, 1795669265.910694, 1795669265.913655),
	('passed', 'acme', 'new', 'idle', 2921965550612704924, NULL, '624e144f9819e414ae38a5b9a3663835', 3737573019856294801, 'f913f066c7b29127', 'Hello', '{}', NULL, 1795669264.710757, 1795669265.961724);

INSERT INTO public.service_waits VALUES
	('1cc3701756ba6224', 'held', 'acme', 'desk', '778b6f5de5773d356f0e0a506cf8079f', 'held/1271544744341818552', 'call-14', '9e7659a65b9e0a4ecc4fce9251ac646f', 'pay', 'review', '{"euros": 14}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 14}"', 'approve,edit,reject,respond', 'a996d35c9a81a6223b156332d371455f', '[]', NULL, 0, 1795669265.527597, NULL, 'reject', NULL, NULL, NULL, NULL, NULL, '1f1e9566-28d5-6b93-8001-aaa350e65cac'),
	('9eca4098b9aeae63', 'paid', 'acme', 'desk', 'd9de05041e9b6bf7cf2b014152d9470e', 'paid/2817085689161406016', 'call-10', '5d458989e7da5d947c3f8580796adf06', 'pay', 'review', '{"euros": 10}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 10}"', 'approve,edit,reject,respond', 'fd316e17bfd62610682f8718dce47ab3', '[]', NULL, 0, 1795669265.199195, NULL, 'reject', NULL, NULL, 1795669265.539358, 'ann', '{"type": "approve", "digest": "fd316e17bfd62610682f8718dce47ab3"}', '1f1e9566-25b4-603f-8001-4280291f9483'),
	('a83e9412cf9d70ba', 'review', 'acme', 'desk', 'd05cb7168cdd3960677083e692cc5015', 'review/3461641969148248552', 'call-12', '453d6f311212505b609feaab3cbc0537', 'pay', 'review', '{"euros": 12}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 12}"', 'approve,edit,reject,respond', '84eab1f7f7be5569ef203422efc18976', '[]', NULL, 0, 1795669265.309599, NULL, 'reject', 'ann', 1795670165.699909, NULL, NULL, NULL, '1f1e9566-26b6-60b8-8001-8259d77ef202'),
	('873136d67bac14b0', 'decided', 'acme', 'desk', '8204acbb1e37a4993036dbd7f3f952ee', 'decided/76773351072938037', 'call-13', 'd2777c2c87bd156a1eae3a7892d01d57', 'pay', 'review', '{"euros": 13}', '"Tool execution requires approval\n\nTool: pay\nArgs: {\"euros\": 13}"', 'approve,edit,reject,respond', '540e733f385a6e38d31d842e43d3a5c9', '[]', NULL, 0, 1795669265.407449, NULL, 'reject', NULL, NULL, 1795669265.871191, 'ann', '{"type": "approve", "digest": "540e733f385a6e38d31d842e43d3a5c9"}', '1f1e9566-27c8-6e55-8001-cec59dff531e');

INSERT INTO public.service_workers VALUES
	('vm-21101-f2a9b8cd', 1795669266.774167, false, '{"host": "vm", "process": 21101, "slots": 1, "agents": ["desk", "new"]}');

INSERT INTO public.store VALUES
	('tenant-61636d65.users.ann', 'likes', '{"food": "pizza"}', '2026-11-26 05:01:04.707048+00', '2026-11-26 05:01:04.707048+00', NULL, NULL);

INSERT INTO public.store_migrations VALUES
	(0),
	(1),
	(2),
	(3);

SELECT pg_catalog.setval('public.service_effects_number_seq', 1, true);

SELECT pg_catalog.setval('public.service_events_id_seq', 14, true);

SELECT pg_catalog.setval('public.service_runs_seq_seq', 12, true);

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

ALTER TABLE ONLY public.service_approvals
    ADD CONSTRAINT service_approvals_pkey PRIMARY KEY (id);

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

ALTER TABLE ONLY public.service_questions
    ADD CONSTRAINT service_questions_pkey PRIMARY KEY (thread_id, job, interrupt_id);

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

ALTER TABLE ONLY public.store_migrations
    ADD CONSTRAINT store_migrations_pkey PRIMARY KEY (v);

ALTER TABLE ONLY public.store
    ADD CONSTRAINT store_pkey PRIMARY KEY (prefix, key);

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

CREATE INDEX idx_store_expires_at ON public.store USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX ix_service_audit_thread_id ON public.service_audit USING btree (thread_id);

CREATE INDEX ix_service_effects_run ON public.service_effects USING btree (run);

CREATE INDEX ix_service_events_at ON public.service_events USING btree (at);

CREATE INDEX ix_service_reservations_expires ON public.service_reservations USING btree (expires);

CREATE INDEX ix_service_runs_thread_id ON public.service_runs USING btree (thread_id);

CREATE INDEX service_approvals_tool ON public.service_approvals USING btree (tenant, agent, tool);

CREATE INDEX service_events_job ON public.service_events USING btree (job, id);

CREATE INDEX service_threads_status ON public.service_threads USING btree (status);

CREATE INDEX service_threads_tenant ON public.service_threads USING btree (tenant, updated_at);

CREATE INDEX service_waits_deadline ON public.service_waits USING btree (deadline) WHERE ((decided_at IS NULL) AND (deadline IS NOT NULL));

CREATE INDEX service_waits_open ON public.service_waits USING btree (tenant, priority DESC, created_at) WHERE (decided_at IS NULL);

CREATE INDEX service_waits_thread ON public.service_waits USING btree (thread_id);

CREATE INDEX store_prefix_idx ON public.store USING btree (prefix text_pattern_ops);

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
