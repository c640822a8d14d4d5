// Skill Sharing Protocol 1.0. Written from the same source as schema.json and equal to it in meaning.
// Objects are open: a document may have fields that are not listed here.

/** Description of one skill: what it does, how it is invoked and who may invoke it. */
export interface SkillDescriptor {
  /** Protocol version that the descriptor follows. */
  protocol: ProtocolVersion;
  /** Globally unique identifier of the skill. */
  id: string;
  /** Display name of the skill. */
  name: string;
  /** Version of the skill: MAJOR.MINOR.PATCH. */
  version: string;
  /** Capability type of the skill. */
  capability_type: CapabilityType;
  /** What the skill does, for people. */
  description: string;
  /** Person or organisation that provides the skill. */
  provider: {
    /** Name of the person or organisation. */
    name: string;
    /** Website of the provider. */
    url?: string;
    /** Contact address of the provider. */
    contact?: string;
  };
  /** Endpoint at which the skill is invoked. */
  endpoint: InvocationEndpoint;
  /** Input parameters of the skill. */
  inputs: ParameterDefinition[];
  /** Output of the skill. */
  output: OutputDefinition;
  /** Authentication that the skill requires of its callers. */
  auth: AuthConfig;
  /** Who may find and invoke the skill. */
  access: AccessPolicy;
  /** Keywords for searching. */
  tags?: string[];
  /** URL of the documentation of the skill. */
  documentation_url?: string;
  /** Time at which the skill was created (ISO 8601). */
  created_at?: string;
  /** Time of the last change of the skill (ISO 8601). */
  updated_at?: string;
}

/** Index of the skills of one host, published at `/.well-known/skill-sharing`. */
export interface SkillIndex {
  /** Protocol version that the index follows. */
  protocol: ProtocolVersion;
  /** Person or organisation that provides the skills. */
  provider: {
    /** Name of the person or organisation. */
    name: string;
    /** Website of the provider. */
    url?: string;
  };
  /** Skills of the host; their ids are unique. */
  skills: SkillIndexEntry[];
}

/** One skill in an index. */
export interface SkillIndexEntry {
  /** Identifier of the skill, unique in the index. */
  id: string;
  /** Display name of the skill. */
  name: string;
  /** Capability type of the skill. */
  capability_type: CapabilityType;
  /** Short description of what the skill does. */
  description: string;
  /** URL of the skill descriptor. */
  descriptor_url: string;
  /** Who may find and invoke the skill. */
  access: AccessPolicy;
  /** Version of the skill: MAJOR.MINOR.PATCH. */
  version: string;
}

/** Request for one execution of a skill. */
export interface InvocationRequest {
  /** Caller that invokes the skill. */
  caller: {
    /** Identifier of the caller. */
    id: string;
    /** Type of the caller, such as `ifay`, `service` or `user`. */
    type: string;
    /** Credentials that prove the identity of the caller. */
    credentials?: Record<string, unknown>;
  };
  /** Identifier of the invoked skill. */
  skill_id: string;
  /** Input values by parameter name. */
  inputs: Record<string, unknown>;
  /** Trace, priority and timeout of the invocation. */
  context?: {
    /** Identifier that joins the traces of several systems. */
    trace_id?: string;
    /** Priority of the invocation relative to others. */
    priority?: "low" | "normal" | "high";
    /** Longest time that the caller waits, in milliseconds. */
    timeout_ms?: number;
  };
}

/**
 * Status and outcome of one execution.
 * When `status` is `"completed"`, `output` must be there and `error` must not be there.
 * When `status` is `"failed"` or `"timeout"`, `error` must be there and `output` must not be there.
 * When `status` is `"accepted"` or `"running"`, `output`, `error` and `timestamps.completed_at` must not be there.
 */
export interface InvocationResponse {
  /** Identifier of the execution. */
  execution_id: string;
  /** Status of the execution. */
  status: ExecutionStatus;
  /** Identifier of the executed skill. */
  skill_id: string;
  /** Output of the execution; present exactly if the status is `completed`. */
  output?: unknown;
  /** Error of the execution; present exactly if the status is `failed` or `timeout`. */
  error?: {
    /** Error code. */
    code: string;
    /** Error message, for people. */
    message: string;
    /** Further details of the error. */
    details?: unknown;
    /** Retry advice; absent if a retry is not advised. */
    retry?: {
      /** Delay before the first retry, in milliseconds. */
      suggested_delay_ms: number;
      /** Highest number of attempts. */
      max_attempts: number;
    };
  };
  /** Times at which the execution began, changed and ended. */
  timestamps: {
    /** Time at which the execution was accepted (ISO 8601). */
    created_at: string;
    /** Time of the last status change (ISO 8601). */
    updated_at: string;
    /** Time at which the execution ended (ISO 8601); only in a final status. */
    completed_at?: string;
  };
}

/** Version of the Skill Sharing protocol. */
export interface ProtocolVersion {
  /** Version number: MAJOR.MINOR.PATCH. */
  version: string;
  /** URL of the list of changes of the protocol version. */
  changelog_url?: string;
}

/**
 * Capability type of a skill.
 * - `"plugin"`: Plugin that extends another program.
 * - `"api"`: API service.
 * - `"knowledge"`: Knowledge package or data source.
 * - `"task"`: Task that people or machines perform.
 */
export type CapabilityType = "plugin" | "api" | "knowledge" | "task";

/**
 * Who may find and invoke a skill.
 * - `"public"`: Every consumer may find and invoke the skill.
 * - `"restricted"`: Everyone may find the skill; only authorised consumers may invoke it.
 * - `"private"`: Hidden from unauthenticated discovery; only authorised consumers may find and invoke the skill.
 */
export type AccessPolicy = "public" | "restricted" | "private";

/**
 * Authentication scheme of a skill.
 * - `"api_key"`: API key in a header.
 * - `"oauth2"`: OAuth 2.0 access token.
 * - `"custom"`: Scheme that the descriptor describes in `custom`.
 * - `"none"`: No authentication.
 */
export type AuthType = "api_key" | "oauth2" | "custom" | "none";

/**
 * Status of an execution.
 * - `"accepted"`: The request was accepted.
 * - `"running"`: The skill is running.
 * - `"completed"`: The execution succeeded.
 * - `"failed"`: The execution failed.
 * - `"timeout"`: The execution exceeded its time limit.
 */
export type ExecutionStatus = "accepted" | "running" | "completed" | "failed" | "timeout";

/** One parameter of a skill. */
export interface ParameterDefinition {
  /** Name of the parameter. */
  name: string;
  /** JSON Schema type of the parameter, such as `string`, `number` or `object`. */
  type: string;
  /** Meaning of the parameter, for people. */
  description: string;
  /** Whether the parameter must be given. */
  required: boolean;
  /** Value of the parameter if it is not given. */
  default?: unknown;
  /** JSON Schema of the parameter. */
  schema?: Record<string, unknown>;
}

/**
 * Authentication that a skill requires of its callers.
 * When `type` is `"oauth2"`, `oauth2` must be there.
 * When `type` is `"custom"`, `custom` must be there.
 */
export interface AuthConfig {
  /** Authentication scheme. */
  type: AuthType;
  /** What callers must do to authenticate, for people. */
  description?: string;
  /** Name of the header that carries the API key. */
  header?: string;
  /** OAuth 2.0 endpoints and scopes; required if the type is `oauth2`. */
  oauth2?: {
    /** Authorization endpoint. */
    authorization_url: string;
    /** Token endpoint. */
    token_url: string;
    /** Available scopes, each with a description of what it allows. */
    scopes: Record<string, string>;
  };
  /** Custom authentication scheme; required if the type is `custom`. */
  custom?: {
    /** Instructions for authenticating, for people. */
    instructions: string;
    /** Parameters that the authentication scheme needs. */
    parameters?: ParameterDefinition[];
  };
}

/** Endpoint at which a skill is invoked. */
export interface InvocationEndpoint {
  /** URL to which invocations are sent. */
  url: string;
  /** HTTP method of an invocation. */
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Content type of the request body; `application/json` if absent. */
  content_type?: string;
  /** URL of the status of an execution; `{execution_id}` stands for the execution's id. */
  status_url?: string;
  /** URL of the result of an execution; `{execution_id}` stands for the execution's id. */
  result_url?: string;
  /** Longest duration of an invocation, in milliseconds. */
  timeout_ms?: number;
  /** Retries of a request that was not delivered. */
  retry?: {
    /** Highest number of attempts. */
    max_attempts: number;
    /** Delay before the next attempt, in milliseconds. */
    backoff_ms: number;
  };
}

/** Output of a skill. */
export interface OutputDefinition {
  /** MIME type of the output, such as `application/json`. */
  content_type: string;
  /** JSON Schema of the output. */
  schema?: Record<string, unknown>;
  /** Meaning of the output, for people. */
  description?: string;
}
