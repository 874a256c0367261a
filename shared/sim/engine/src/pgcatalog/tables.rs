//! Which system tables there are and which columns they have.

use super::{SystemTable, rows};
use crate::error::Result;
use crate::sql::exec::Run;
use crate::types::Type;
use crate::value::Value;

const B: Type = Type::BOOL;
const I2: Type = Type::INT2;
const I4: Type = Type::INT4;
const I8: Type = Type::INT8;
const F4: Type = Type::FLOAT4;
const N: Type = Type::NAME;
const T: Type = Type::TEXT;
const O: Type = Type::OID;
const C: Type = Type::CHAR;
const X: Type = Type::XID;
const P: Type = Type::REGPROC;
const V: Type = Type::INT2VECTOR;
const OV: Type = Type::OIDVECTOR;
const TZ: Type = Type::TIMESTAMPTZ;

const fn array(oid: u32) -> Type {
    Type {
        oid,
        size: -1,
        modifier: -1,
    }
}
const I2A: Type = array(1005);
const TA: Type = array(1009);
const OA: Type = array(1028);
const NA: Type = array(1003);
const CA: Type = array(1002);

fn none(_: &Run<'_>) -> Result<Vec<Vec<Value>>> {
    Ok(Vec::new())
}

macro_rules! tables {
    ($($oid:literal $schema:literal $name:literal $rows:expr => [$($column:ident $ty:ident),* $(,)?];)*) => {
        pub(super) static TABLES: &[SystemTable] = &[
            $(SystemTable {
                oid: $oid,
                schema: $schema,
                name: $name,
                columns: &[$((stringify!($column), $ty)),*],
                rows: $rows,
            },)*
        ];
    };
}

tables! {
    1259 "pg_catalog" "pg_class" rows::pg_class => [
        oid O, relname N, relnamespace O, reltype O, reloftype O, relowner O, relam O, relfilenode O,
        reltablespace O, relpages I4, reltuples F4, relallvisible I4, reltoastrelid O, relhasindex B,
        relisshared B, relpersistence C, relkind C, relnatts I2, relchecks I2, relhasrules B,
        relhastriggers B, relhassubclass B, relrowsecurity B, relforcerowsecurity B, relispopulated B,
        relreplident C, relispartition B, relrewrite O, relfrozenxid X, relminmxid X, relacl TA,
        reloptions TA, relpartbound T];
    2615 "pg_catalog" "pg_namespace" rows::pg_namespace => [oid O, nspname N, nspowner O, nspacl TA];
    1247 "pg_catalog" "pg_type" rows::pg_type => [
        oid O, typname N, typnamespace O, typowner O, typlen I2, typbyval B, typtype C, typcategory C,
        typispreferred B, typisdefined B, typdelim C, typrelid O, typsubscript P, typelem O, typarray O,
        typinput P, typoutput P, typreceive P, typsend P, typalign C, typstorage C, typnotnull B,
        typbasetype O, typtypmod I4, typndims I4, typcollation O, typdefault T, typacl TA];
    1249 "pg_catalog" "pg_attribute" rows::pg_attribute => [
        attrelid O, attname N, atttypid O, attlen I2, attnum I2, attndims I2, atttypmod I4, attbyval B,
        attalign C, attstorage C, attcompression C, attnotnull B, atthasdef B, atthasmissing B,
        attidentity C, attgenerated C, attisdropped B, attislocal B, attinhcount I2, attstattarget I2,
        attcollation O, attacl TA, attoptions TA, attfdwoptions TA];
    2604 "pg_catalog" "pg_attrdef" rows::pg_attrdef => [oid O, adrelid O, adnum I2, adbin T];
    2610 "pg_catalog" "pg_index" rows::pg_index => [
        indexrelid O, indrelid O, indnatts I2, indnkeyatts I2, indisunique B, indnullsnotdistinct B,
        indisprimary B, indisexclusion B, indimmediate B, indisclustered B, indisvalid B,
        indcheckxmin B, indisready B, indislive B, indisreplident B, indkey V, indcollation OV,
        indclass OV, indoption V, indexprs T, indpred T];
    2606 "pg_catalog" "pg_constraint" rows::pg_constraint => [
        oid O, conname N, connamespace O, contype C, condeferrable B, condeferred B, convalidated B,
        conrelid O, contypid O, conindid O, conparentid O, confrelid O, confupdtype C, confdeltype C,
        confmatchtype C, conislocal B, coninhcount I2, connoinherit B, conkey I2A, confkey I2A,
        conpfeqop OA, conppeqop OA, conffeqop OA, conexclop OA, conbin T];
    1262 "pg_catalog" "pg_database" rows::pg_database => [
        oid O, datname N, datdba O, encoding I4, datlocprovider C, datistemplate B, datallowconn B,
        datconnlimit I4, datfrozenxid X, datminmxid X, dattablespace O, datcollate T, datctype T,
        daticulocale T, datcollversion T, datacl TA];
    1260 "pg_catalog" "pg_authid" rows::pg_roles => [
        rolname N, rolsuper B, rolinherit B, rolcreaterole B, rolcreatedb B, rolcanlogin B,
        rolreplication B, rolconnlimit I4, rolpassword T, rolvaliduntil TZ, rolbypassrls B,
        rolconfig TA, oid O];
    12001 "pg_catalog" "pg_roles" rows::pg_roles => [
        rolname N, rolsuper B, rolinherit B, rolcreaterole B, rolcreatedb B, rolcanlogin B,
        rolreplication B, rolconnlimit I4, rolpassword T, rolvaliduntil TZ, rolbypassrls B,
        rolconfig TA, oid O];
    12002 "pg_catalog" "pg_user" rows::pg_user => [
        usename N, usesysid O, usecreatedb B, usesuper B, userepl B, usebypassrls B, passwd T];
    12003 "pg_catalog" "pg_settings" rows::pg_settings => [
        name T, setting T, unit T, category T, short_desc T, context T, vartype T, source T,
        min_val T, max_val T, enumvals TA, boot_val T, reset_val T];
    12004 "pg_catalog" "pg_tables" rows::pg_tables => [
        schemaname N, tablename N, tableowner N, tablespace N, hasindexes B, hasrules B,
        hastriggers B, rowsecurity B];
    12005 "pg_catalog" "pg_indexes" rows::pg_indexes => [
        schemaname N, tablename N, indexname N, tablespace N, indexdef T];
    12006 "pg_catalog" "pg_views" rows::pg_views => [
        schemaname N, viewname N, viewowner N, definition T];
    12007 "pg_catalog" "pg_stat_activity" rows::pg_stat_activity => [
        datid O, datname N, pid I4, usesysid O, usename N, application_name T, client_addr T,
        backend_start TZ, xact_start TZ, query_start TZ, state T, query T];
    2601 "pg_catalog" "pg_am" rows::pg_am => [oid O, amname N, amhandler P, amtype C];
    3456 "pg_catalog" "pg_collation" none => [
        oid O, collname N, collnamespace O, collowner O, collprovider C, collisdeterministic B,
        collencoding I4, collcollate T, collctype T];
    2224 "pg_catalog" "pg_sequence" none => [
        seqrelid O, seqtypid O, seqstart I8, seqincrement I8, seqmax I8, seqmin I8, seqcache I8, seqcycle B];
    3541 "pg_catalog" "pg_range" none => [
        rngtypid O, rngsubtype O, rngmultitypid O, rngcollation O, rngsubopc O, rngcanonical P, rngsubdiff P];
    3501 "pg_catalog" "pg_enum" none => [oid O, enumtypid O, enumsortorder F4, enumlabel N];
    1255 "pg_catalog" "pg_proc" none => [
        oid O, proname N, pronamespace O, proowner O, prolang O, prokind C, prorettype O,
        proargtypes OV, prosrc T, pronargs I2, proallargtypes OA, proargmodes CA, proargnames NA];
    2611 "pg_catalog" "pg_inherits" none => [inhrelid O, inhparent O, inhseqno I4, inhdetachpending B];
    3350 "pg_catalog" "pg_partitioned_table" none => [partrelid O, partstrat C, partnatts I2];
    3256 "pg_catalog" "pg_policy" none => [
        oid O, polname N, polrelid O, polcmd C, polpermissive B, polroles OA, polqual T, polwithcheck T];
    3381 "pg_catalog" "pg_statistic_ext" none => [
        oid O, stxrelid O, stxname N, stxnamespace O, stxowner O, stxstattarget I4, stxkeys V, stxkind CA];
    6104 "pg_catalog" "pg_publication" none => [oid O, pubname N, pubowner O, puballtables B];
    6106 "pg_catalog" "pg_publication_rel" none => [oid O, prpubid O, prrelid O, prqual T, prattrs V];
    6237 "pg_catalog" "pg_publication_namespace" none => [oid O, pnpubid O, pnnspid O];
    2620 "pg_catalog" "pg_trigger" none => [
        oid O, tgrelid O, tgparentid O, tgname N, tgfoid O, tgtype I2, tgenabled C, tgisinternal B,
        tgconstrrelid O, tgconstrindid O, tgconstraint O, tgdeferrable B, tginitdeferred B];
    2618 "pg_catalog" "pg_rewrite" none => [
        oid O, rulename N, ev_class O, ev_type C, ev_enabled C, is_instead B];
    2609 "pg_catalog" "pg_description" none => [objoid O, classoid O, objsubid I4, description T];
    2396 "pg_catalog" "pg_shdescription" none => [objoid O, classoid O, description T];
    1213 "pg_catalog" "pg_tablespace" none => [oid O, spcname N, spcowner O, spcacl TA, spcoptions TA];
    1261 "pg_catalog" "pg_auth_members" none => [roleid O, member O, grantor O, admin_option B];
    3118 "pg_catalog" "pg_foreign_table" none => [ftrelid O, ftserver O, ftoptions TA];
    1417 "pg_catalog" "pg_foreign_server" none => [oid O, srvname N, srvowner O, srvfdw O];
    3079 "pg_catalog" "pg_extension" none => [oid O, extname N, extowner O, extnamespace O, extversion T];
    2612 "pg_catalog" "pg_language" none => [oid O, lanname N, lanowner O, lanispl B, lanpltrusted B];
    2608 "pg_catalog" "pg_depend" none => [
        classid O, objid O, objsubid I4, refclassid O, refobjid O, refobjsubid I4, deptype C];
    12008 "pg_catalog" "pg_matviews" none => [schemaname N, matviewname N, matviewowner N, definition T];
    12009 "pg_catalog" "pg_prepared_statements" none => [
        name T, statement T, prepare_time TZ, from_sql B];
    12010 "pg_catalog" "pg_locks" none => [locktype T, relation O, pid I4, mode T, granted B];
    13501 "information_schema" "tables" rows::information_tables => [
        table_catalog N, table_schema N, table_name N, table_type T, is_insertable_into T];
    13502 "information_schema" "columns" rows::information_columns => [
        table_catalog N, table_schema N, table_name N, column_name N, ordinal_position I4,
        column_default T, is_nullable T, data_type T, character_maximum_length I4,
        numeric_precision I4, numeric_scale I4, udt_schema N, udt_name N, is_identity T,
        identity_generation T, is_generated T, is_updatable T];
    13503 "information_schema" "schemata" rows::information_schemata => [
        catalog_name N, schema_name N, schema_owner N];
    13504 "information_schema" "table_constraints" rows::information_constraints => [
        constraint_catalog N, constraint_schema N, constraint_name N, table_catalog N,
        table_schema N, table_name N, constraint_type T, is_deferrable T, initially_deferred T];
    13505 "information_schema" "key_column_usage" rows::information_keys => [
        constraint_catalog N, constraint_schema N, constraint_name N, table_catalog N,
        table_schema N, table_name N, column_name N, ordinal_position I4,
        position_in_unique_constraint I4];
    13506 "information_schema" "views" rows::information_views => [
        table_catalog N, table_schema N, table_name N, view_definition T];
    13601 "sys" "jobs" rows::sys_jobs => [
        job_id T, status T, details T, job_type T, class_id O, object_id O, object_name T,
        start_time TZ, update_time TZ];
    13602 "sys" "iam_pg_role_mappings" none => [iam_oid O, arn T, pg_role_oid O, pg_role_name N];
}
