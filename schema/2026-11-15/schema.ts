// Skill Sharing Protocol 1.0. Written from the same source as schema.json and equal to it in meaning.
// Objects are open: a document may have fields that are not listed here.

/** Everything there is to know about one skill: what it is, how it is called, and who may call it. */
export interface SkillDescriptor {
  /** The version of the protocol this descriptor follows. */
  protocol: ProtocolVersion;
  /** The skill's globally unique identifier. */
  id: string;
  /** The skill's name for people. */
  name: string;
  /** The skill's version: MAJOR.MINOR.PATCH. */
  version: string;
  /** What sort of thing the skill is. */
  capability_type: CapabilityType;
  /** What the skill does, for people. */
  description: string;
  /** Who provides the skill. */
  provider: {
    /** A person or an organisation. */
    name: string;
    /** Their page. */
    url?: string;
    /** How to reach them. */
    contact?: string;
  };
  /** Where and how the skill is invoked. */
  endpoint: InvocationEndpoint;
  /** The parameters it takes. */
  inputs: ParameterDefinition[];
  /** What it answers. */
  output: OutputDefinition;
  /** How its callers say who they are. */
  auth: AuthConfig;
  /** Who may find and invoke it. */
  access: AccessPolicy;
  /** Words to find it by. */
  tags?: string[];
  /** Where more is written about it. */
  documentation_url?: string;
  /** When it was made (ISO 8601). */
  created_at?: string;
  /** When it last changed (ISO 8601). */
  updated_at?: string;
}

/** The skills of one host, as found at `/.well-known/skill-sharing`. */
export interface SkillIndex {
  /** The version of the protocol this index follows. */
  protocol: ProtocolVersion;
  /** Who provides the skills. */
  provider: {
    /** A person or an organisation. */
    name: string;
    /** Their page. */
    url?: string;
  };
  /** The skills; no two have the same id. */
  skills: SkillIndexEntry[];
}

/** One skill in an index. */
export interface SkillIndexEntry {
  /** The skill's identifier, unique in the index. */
  id: string;
  /** The skill's name for people. */
  name: string;
  /** What sort of thing the skill is. */
  capability_type: CapabilityType;
  /** What the skill does, in short. */
  description: string;
  /** Where its descriptor is. */
  descriptor_url: string;
  /** Who may find and invoke it. */
  access: AccessPolicy;
  /** The skill's version: MAJOR.MINOR.PATCH. */
  version: string;
}

/** Asks for one execution of a skill. */
export interface InvocationRequest {
  /** Who asks. */
  caller: {
    /** The caller's identifier. */
    id: string;
    /** What sort of caller it is, such as `ifay`, `service` or `user`. */
    type: string;
    /** What proves who they are. */
    credentials?: Record<string, unknown>;
  };
  /** Which skill is asked for. */
  skill_id: string;
  /** The inputs by name. */
  inputs: Record<string, unknown>;
  /** The circumstances. */
  context?: {
    /** What ties the traces of several systems together. */
    trace_id?: string;
    /** How soon it should be done beside others. */
    priority?: "low" | "normal" | "high";
    /** How long the caller waits, in milliseconds. */
    timeout_ms?: number;
  };
}

/**
 * How far one execution is, and what came of it.
 * When `status` is `"completed"`, `output` must be there and `error` must not be there.
 * When `status` is `"failed"` or `"timeout"`, `error` must be there and `output` must not be there.
 * When `status` is `"accepted"` or `"running"`, `output`, `error` and `timestamps.completed_at` must not be there.
 */
export interface InvocationResponse {
  /** The execution's identifier. */
  execution_id: string;
  /** How far it is. */
  status: ExecutionStatus;
  /** Which skill it is of. */
  skill_id: string;
  /** What came of it; there exactly when the status is `completed`. */
  output?: unknown;
  /** What went wrong; there exactly when the status is `failed` or `timeout`. */
  error?: {
    /** What sort of error it is. */
    code: string;
    /** What went wrong, for people. */
    message: string;
    /** More about it. */
    details?: unknown;
    /** Whether trying again makes sense. */
    retry?: {
      /** How long to wait first, in milliseconds. */
      suggested_delay_ms: number;
      /** How often to try at most. */
      max_attempts: number;
    };
  };
  /** When things happened. */
  timestamps: {
    /** When it was accepted (ISO 8601). */
    created_at: string;
    /** When its status last changed (ISO 8601). */
    updated_at: string;
    /** When it ended (ISO 8601); only in an end state. */
    completed_at?: string;
  };
}

/** A version of the protocol. */
export interface ProtocolVersion {
  /** MAJOR.MINOR.PATCH. */
  version: string;
  /** Where the changes of that version are listed. */
  changelog_url?: string;
}

/**
 * What sort of thing a skill is.
 * - `"plugin"`: A plugin that adds to something else.
 * - `"api"`: An API service.
 * - `"knowledge"`: A package of knowledge or a source of data.
 * - `"task"`: Something to have done, by people or by machines.
 */
export type CapabilityType = "plugin" | "api" | "knowledge" | "task";

/**
 * Who may find and invoke a skill.
 * - `"public"`: Every consumer may find and invoke it.
 * - `"restricted"`: Everyone may find it; only authorised consumers may invoke it.
 * - `"private"`: Hidden from unauthenticated discovery; only authorised consumers may find and invoke it.
 */
export type AccessPolicy = "public" | "restricted" | "private";

/**
 * How callers of a skill say who they are.
 * - `"api_key"`: By an API key in a header.
 * - `"oauth2"`: By an OAuth 2.0 access token.
 * - `"custom"`: In a way of its own.
 * - `"none"`: Not at all.
 */
export type AuthType = "api_key" | "oauth2" | "custom" | "none";

/**
 * How far an execution is.
 * - `"accepted"`: The request was taken on.
 * - `"running"`: The skill is at work.
 * - `"completed"`: It ended well.
 * - `"failed"`: It ended badly.
 * - `"timeout"`: It took too long.
 */
export type ExecutionStatus = "accepted" | "running" | "completed" | "failed" | "timeout";

/** One parameter. */
export interface ParameterDefinition {
  /** Its name. */
  name: string;
  /** Its JSON Schema type, such as `string`, `number` or `object`. */
  type: string;
  /** What it means, for people. */
  description: string;
  /** Whether it must be given. */
  required: boolean;
  /** What is taken when it is not given. */
  default?: unknown;
  /** A JSON Schema that says more about it. */
  schema?: Record<string, unknown>;
}

/**
 * How callers of a skill say who they are.
 * When `type` is `"oauth2"`, `oauth2` must be there.
 * When `type` is `"custom"`, `custom` must be there.
 */
export interface AuthConfig {
  /** In which way. */
  type: AuthType;
  /** What callers must do, for people. */
  description?: string;
  /** The header an API key is sent in. */
  header?: string;
  /** Where tokens are had; required when the type is `oauth2`. */
  oauth2?: {
    /** Where a person allows it. */
    authorization_url: string;
    /** Where tokens are given out. */
    token_url: string;
    /** The scopes there are, each with what it allows. */
    scopes: Record<string, string>;
  };
  /** What to do; required when the type is `custom`. */
  custom?: {
    /** What to do, for people. */
    instructions: string;
    /** What is needed for it. */
    parameters?: ParameterDefinition[];
  };
}

/** Where and how a skill is invoked. */
export interface InvocationEndpoint {
  /** Where requests are sent. */
  url: string;
  /** The HTTP method. */
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** The type of a request's body; `application/json` when it is not said. */
  content_type?: string;
  /** Where an execution's status is; `{execution_id}` stands for its id. */
  status_url?: string;
  /** Where an execution's result is; `{execution_id}` stands for its id. */
  result_url?: string;
  /** How long an invocation may take, in milliseconds. */
  timeout_ms?: number;
  /** How a request that did not arrive is tried again. */
  retry?: {
    /** How often it is tried at most. */
    max_attempts: number;
    /** How long to wait before the next try, in milliseconds. */
    backoff_ms: number;
  };
}

/** What a skill answers. */
export interface OutputDefinition {
  /** Its MIME type, such as `application/json`. */
  content_type: string;
  /** A JSON Schema of it. */
  schema?: Record<string, unknown>;
  /** What it means, for people. */
  description?: string;
}
